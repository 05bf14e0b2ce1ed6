#include "main.h"

#include <cstdio>
#include <exception>

int bench::run_main(CLI::App& app, int argc, char** argv, const std::function<Report(const Options&)>& body) {
  Options options;
  app.add_flag("--small", options.small, "Small sizes, few runs: shows that it works, measures nothing");
  app.add_option("--report", options.report, "Write PATH.json and PATH.md")->type_name("PATH");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  const std::string name = app.get_name();
  try {
    const Report report = body(options);
    if (!options.report.empty()) report.write(options.report);
    if (report.all_checked()) return 0;
    std::fprintf(stderr, "%s: a result differs from its reference.\n", name.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), error.what());
  }
  return 1;
}
