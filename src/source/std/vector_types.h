// What a kernel needs of vector_types.h is built into the compiler, or comes from pergola_cuda.h.
#pragma once
