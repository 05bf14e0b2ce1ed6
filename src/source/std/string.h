// memcpy, memset are built into NVRTC, and come from pergola_cuda.h under clang.
#pragma once
#include <stddef.h>
