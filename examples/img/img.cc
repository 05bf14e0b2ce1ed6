// IMG: the image pipeline of the GrCUDA scheduler paper (section V-B, Figure 6), on a photograph.
//
//   img [IN.png|IN.jpg [OUT.png]]      PERGOLA_DEVICE=cpu | cuda:0 chooses where it runs
//
//              ┌─ blur small ──────────── sobel ──────────────────────── mask small ──────────┐
//   picture ───┼─ blur large ──────────── sobel ─┬─ maximum ─┬─ extend ─ mask large ─┐        │
//              │                                 └─ minimum ─┘                       │        │
//              └─ blur unsharpen ─ unsharpen ──────────────── combine(·, large) ─────┴── combine(·, small) ─▶ result
//
// The host code is written as if everything were sequential; only reading the result waits.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>

#include "picture.h"
#include "pipeline.h"

constexpr const char* kUsage =
    "usage: img [IN.png|IN.jpg [OUT.png [KERNELS.cu]]]\n"
    "Without IN a photograph that comes with it is taken. PERGOLA_DEVICE=cpu | cuda:0 chooses where it runs.\n";

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (!argument.starts_with('-')) continue;
    const bool asked = argument == "--help" || argument == "-h";
    if (!asked) std::fprintf(stderr, "img: there is no option '%s'\n", argv[i]);
    std::fputs(kUsage, asked ? stdout : stderr);
    return asked ? 0 : 2;
  }
  const std::string in = argc > 1 ? argv[1] : IMG_DEFAULT_PICTURE;
  const std::string out = argc > 2 ? argv[2] : "img.png";
  const std::string kernels = argc > 3 ? argv[3] : IMG_KERNELS;
  try {
    const img::Picture picture = img::read_picture(in);
    pergola::Session session;
    const img::Outcome outcome = img::run_pipeline(session, kernels, picture);
    img::write_png(out, outcome.picture);

    const std::string device = session.device().name;
    // Launches overlap where nothing forbids it, so what each took by itself is not known: `pergola trace` shows it.
    std::printf("%-16s %12s  %s\n", "kernel", "ended after", "device");
    double last_us = 0.0;
    for (const img::Launched& launch : outcome.launches) {
      const double us = launch.end.milliseconds_since(outcome.begin) * 1e3;
      last_us = std::max(last_us, us);
      std::printf("%-16s %9.1f us  %s\n", launch.name.c_str(), us, device.c_str());
    }
    std::printf("%-16s %9.1f us  %s\n", "all", last_us, device.c_str());
    std::printf("%s (%d x %d, %d channels) -> %s\n", in.c_str(), picture.cols, picture.rows, picture.channels, out.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "img: %s\n", error.what());
    return 1;
  }
  return 0;
}
