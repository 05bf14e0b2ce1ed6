#include <pergola/pergola.hpp>

#include <cstdio>

int main() {
  try {
    pergola::Session session("cpu");
    auto store = session
                     .load_text(".version 7.0\n.target sm_70\n.address_size 64\n"
                                ".visible .entry store(.param .u64 p, .param .u32 v) {\n"
                                "  .reg .b64 %p; .reg .b32 %v;\n"
                                "  ld.param.u64 %p, [p]; ld.param.u32 %v, [v];\n"
                                "  st.global.u32 [%p], %v; ret;\n}\n")
                     .kernel("store");
    auto answer = session.array<int>(1, 0);
    store(pergola::grid(1, 1), answer, 42);
    std::printf("%d\n", answer.read()[0]);
  } catch (const pergola::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
