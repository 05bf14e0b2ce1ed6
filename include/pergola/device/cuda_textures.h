// Texture objects of CUDA, for clang (pergola_cuda.h): tex1Dfetch, tex1D, tex2D, tex3D, tex2DLod and tex2DGather of an
// element type or a vector of 1, 2 or 4 of them. A texture gives four channels of 32 bits each (ISA 9.7.10); what T has
// fewer of is dropped, and narrow integers are cut. Not here: layers, cubes, textures by reference, surfaces.
#pragma once

typedef unsigned long long cudaTextureObject_t;

template <class T>
struct pergola_texel;
#define PERGOLA_TEXEL(T, R, name)                                                                                           \
  template <>                                                                                                               \
  struct pergola_texel<T> {                                                                                                 \
    typedef R raw;                                                                                                          \
    static __device__ __forceinline__ T of(const R* v) { return static_cast<T>(v[0]); }                                     \
  };                                                                                                                        \
  template <>                                                                                                               \
  struct pergola_texel<name##1> {                                                                                           \
    typedef R raw;                                                                                                          \
    static __device__ __forceinline__ name##1 of(const R* v) { return name##1{static_cast<T>(v[0])}; }                      \
  };                                                                                                                        \
  template <>                                                                                                               \
  struct pergola_texel<name##2> {                                                                                           \
    typedef R raw;                                                                                                          \
    static __device__ __forceinline__ name##2 of(const R* v) { return name##2{static_cast<T>(v[0]), static_cast<T>(v[1])}; } \
  };                                                                                                                        \
  template <>                                                                                                               \
  struct pergola_texel<name##4> {                                                                                           \
    typedef R raw;                                                                                                          \
    static __device__ __forceinline__ name##4 of(const R* v) {                                                              \
      return name##4{static_cast<T>(v[0]), static_cast<T>(v[1]), static_cast<T>(v[2]), static_cast<T>(v[3])};               \
    }                                                                                                                       \
  };
PERGOLA_TEXEL(float, float, float)
PERGOLA_TEXEL(int, int, int)
PERGOLA_TEXEL(short, int, short)
PERGOLA_TEXEL(signed char, int, char)
PERGOLA_TEXEL(unsigned int, unsigned int, uint)
PERGOLA_TEXEL(unsigned short, unsigned int, ushort)
PERGOLA_TEXEL(unsigned char, unsigned int, uchar)
#undef PERGOLA_TEXEL
template <>
struct pergola_texel<char> : pergola_texel<signed char> {};

// The four channels of one read. `type` is what the texture gives, `op` the rest of the instruction.
#define PERGOLA_READ(name, R, c, parameters, op, coordinates, ...)                                        \
  PERGOLA_FN void name(R* v, cudaTextureObject_t t, parameters) {                                         \
    asm(op " {%0, %1, %2, %3}, [%4, " coordinates ";" : c(v[0]), c(v[1]), c(v[2]), c(v[3]) : "l"(t), __VA_ARGS__); \
  }
#define PERGOLA_COMMA ,
#define PERGOLA_READS(R, c, type)                                                                                              \
  PERGOLA_READ(pergola_fetch1, R, c, int x, "tex.1d.v4." type ".s32", "{%5}]", "r"(x))                                         \
  PERGOLA_READ(pergola_tex1, R, c, float x, "tex.1d.v4." type ".f32", "{%5}]", "f"(x))                                         \
  PERGOLA_READ(pergola_tex2, R, c, float x PERGOLA_COMMA float y, "tex.2d.v4." type ".f32", "{%5, %6}]", "f"(x), "f"(y))       \
  PERGOLA_READ(pergola_level2, R, c, float x PERGOLA_COMMA float y PERGOLA_COMMA float level, "tex.level.2d.v4." type ".f32",  \
               "{%5, %6}], %7", "f"(x), "f"(y), "f"(level))                                                                    \
  PERGOLA_READ(pergola_tex3, R, c, float x PERGOLA_COMMA float y PERGOLA_COMMA float z, "tex.3d.v4." type ".f32",              \
               "{%5, %6, %7, %7}]", "f"(x), "f"(y), "f"(z))                                                                    \
  PERGOLA_READ(pergola_gather_r, R, c, float x PERGOLA_COMMA float y, "tld4.r.2d.v4." type ".f32", "{%5, %6}]", "f"(x), "f"(y)) \
  PERGOLA_READ(pergola_gather_g, R, c, float x PERGOLA_COMMA float y, "tld4.g.2d.v4." type ".f32", "{%5, %6}]", "f"(x), "f"(y)) \
  PERGOLA_READ(pergola_gather_b, R, c, float x PERGOLA_COMMA float y, "tld4.b.2d.v4." type ".f32", "{%5, %6}]", "f"(x), "f"(y)) \
  PERGOLA_READ(pergola_gather_a, R, c, float x PERGOLA_COMMA float y, "tld4.a.2d.v4." type ".f32", "{%5, %6}]", "f"(x), "f"(y))
PERGOLA_READS(float, "=f", "f32")
PERGOLA_READS(int, "=r", "s32")
PERGOLA_READS(unsigned int, "=r", "u32")
#undef PERGOLA_READS
#undef PERGOLA_READ

#define PERGOLA_TEXTURE(name, read, parameters, arguments)                \
  template <class T>                                                      \
  PERGOLA_FN T name(cudaTextureObject_t t, parameters) {                  \
    typename pergola_texel<T>::raw v[4];                                  \
    read(v, t, arguments);                                                \
    return pergola_texel<T>::of(v);                                       \
  }                                                                       \
  template <class T>                                                      \
  PERGOLA_FN void name(T* out, cudaTextureObject_t t, parameters) {       \
    *out = name<T>(t, arguments);                                         \
  }
PERGOLA_TEXTURE(tex1Dfetch, pergola_fetch1, int x, x)
PERGOLA_TEXTURE(tex1D, pergola_tex1, float x, x)
PERGOLA_TEXTURE(tex2D, pergola_tex2, float x PERGOLA_COMMA float y, x PERGOLA_COMMA y)
PERGOLA_TEXTURE(tex2DLod, pergola_level2, float x PERGOLA_COMMA float y PERGOLA_COMMA float level, x PERGOLA_COMMA y PERGOLA_COMMA level)
PERGOLA_TEXTURE(tex3D, pergola_tex3, float x PERGOLA_COMMA float y PERGOLA_COMMA float z, x PERGOLA_COMMA y PERGOLA_COMMA z)
#undef PERGOLA_TEXTURE
#undef PERGOLA_COMMA

// One channel of the four texels that a linear filter would mix.
template <class T>
PERGOLA_FN T tex2Dgather(cudaTextureObject_t t, float x, float y, int channel = 0) {
  typename pergola_texel<T>::raw v[4];
  if (channel == 3) pergola_gather_a(v, t, x, y);
  else if (channel == 2) pergola_gather_b(v, t, x, y);
  else if (channel == 1) pergola_gather_g(v, t, x, y);
  else pergola_gather_r(v, t, x, y);
  return pergola_texel<T>::of(v);
}
template <class T>
PERGOLA_FN void tex2Dgather(T* out, cudaTextureObject_t t, float x, float y, int channel = 0) {
  *out = tex2Dgather<T>(t, x, y, channel);
}
