// assert is built into NVRTC, and comes from pergola_cuda.h under clang.
#pragma once
