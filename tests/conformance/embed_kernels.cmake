# cmake -DOUTPUT=file.cc -DFILES=a.ptx;b.ptx -P embed_kernels.cmake: PTX files as strings, so that the test program runs
# by itself on a machine that has no checkout. Strings are cut below 16 KiB, which every compiler takes.
set(body "")
foreach(file IN LISTS FILES)
  get_filename_component(stem ${file} NAME_WE)
  file(READ ${file} text)
  string(LENGTH "${text}" length)
  set(pieces "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND pieces "R\"ptx(${piece})ptx\"\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  string(APPEND body "    {\"${stem}\",\n${pieces}},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by embed_kernels.cmake from tests/conformance/kernels/*.ptx.
#include \"tests/conformance/kernels.h\"

namespace pergola::conformance {
const std::map<std::string, std::string>& embedded_kernels() {
  static const std::map<std::string, std::string> kernels{
${body}  };
  return kernels;
}
}  // namespace pergola::conformance
")
