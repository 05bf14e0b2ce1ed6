// What a kernel needs of cuda_runtime_api.h is built into the compiler, or comes from pergola_cuda.h.
#pragma once
