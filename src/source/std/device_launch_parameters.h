// What a kernel needs of device_launch_parameters.h is built into the compiler, or comes from pergola_cuda.h.
#pragma once
