// The program `pergola`: its commands are in the folder above.
#include <algorithm>

#include "tools/pergola/command_line.h"

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  pergola::tool::Console console;
  if (std::find(words.begin(), words.end(), "--json") != words.end()) console.keep_output_for_json();
  return pergola::tool::run_command_line(words, console);
}
