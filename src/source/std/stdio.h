// Of C's input and output a kernel has printf alone; it is built into the compilers.
#pragma once
