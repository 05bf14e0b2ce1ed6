/* c11_test DEVICE: a caller in plain C11 runs a kernel and gets every kind of answer. */
#include <pergola/pergola.h>

#include <stdio.h>
#include <string.h>

static const char kPtx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry scale(.param .u64 p, .param .f32 f, .param .u32 n) {\n"
    "  .reg .pred %q; .reg .b32 %i, %n; .reg .b64 %p, %o; .reg .f32 %f, %x;\n"
    "  ld.param.u64 %p, [p]; ld.param.f32 %f, [f]; ld.param.u32 %n, [n];\n"
    "  mov.u32 %i, %tid.x; setp.ge.u32 %q, %i, %n; @%q bra done;\n"
    "  mul.wide.u32 %o, %i, 4; add.s64 %p, %p, %o;\n"
    "  ld.global.f32 %x, [%p]; mul.f32 %x, %x, %f; st.global.f32 [%p], %x;\n"
    "done: ret;\n}\n";

#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: %s; %s\n", __FILE__, __LINE__, #condition, pergola_last_error()); \
      return 1;                                                                              \
    }                                                                                        \
  } while (0)

int main(int argc, char** argv) {
  pergola_session_options session_options = {.struct_size = PERGOLA_STRUCT_SIZE(pergola_session_options), .device = "cpu"};
  pergola_array_options array_options = {PERGOLA_STRUCT_SIZE(pergola_array_options), PERGOLA_TYPE_F32, 0, 32};
  pergola_launch_config config = {PERGOLA_STRUCT_SIZE(pergola_launch_config), {1, 1, 1}, {32, 1, 1}, 0, 0};
  pergola_parameter_info parameter = {0};
  pergola_session session;
  pergola_module module;
  pergola_kernel kernel;
  pergola_array array;
  pergola_event event;
  pergola_argument arguments[3];
  pergola_type types[3];
  uint64_t bits[3], ticket = 0;
  const char* name = NULL;
  float values[32];
  int i;

  CHECK(pergola_api_version() == PERGOLA_API_VERSION);
  session_options.device = argc > 1 ? argv[1] : NULL;
  CHECK(pergola_session_create(&session_options, &session) == PERGOLA_OK);
  CHECK(pergola_session_load_text(session, kPtx, strlen(kPtx), NULL, &module) == PERGOLA_OK);
  CHECK(pergola_module_kernel_name(module, 0, &name) == PERGOLA_OK && strcmp(name, "scale") == 0);
  CHECK(pergola_module_kernel_name(module, 1, &name) == PERGOLA_OK && name == NULL);
  CHECK(pergola_module_kernel(module, "scale", &kernel) == PERGOLA_OK);
  parameter.struct_size = PERGOLA_STRUCT_SIZE(pergola_parameter_info);
  CHECK(pergola_kernel_parameter(kernel, 0, &parameter) == PERGOLA_OK);
  CHECK(parameter.access == PERGOLA_ACCESS_READ_WRITE);

  CHECK(pergola_array_create(session, &array_options, &array) == PERGOLA_OK);
  for (i = 0; i < 32; ++i) values[i] = (float)i;
  CHECK(pergola_array_write(array, 0, values, sizeof values) == PERGOLA_OK);
  arguments[0] = pergola_arg_array(array);
  arguments[1] = pergola_arg_f64(2.0);
  arguments[2] = pergola_arg_u32(32);
  CHECK(pergola_kernel_launch(kernel, &config, arguments, 3, NULL) == PERGOLA_INVALID_ARGUMENT);
  CHECK(strcmp(pergola_last_error(),
               "Argument 1 (parameter f) of kernel 'scale' should be a float; it is a double.") == 0);
  arguments[1] = pergola_arg_f32(2.0f);
  CHECK(pergola_kernel_launch(kernel, &config, arguments, 3, &event) == PERGOLA_OK);
  CHECK(pergola_event_wait(event, -1) == PERGOLA_OK);
  CHECK(pergola_array_read(array, 0, values, sizeof values) == PERGOLA_OK);
  for (i = 0; i < 32; ++i) CHECK(values[i] == 2.0f * (float)i);
  types[0] = PERGOLA_TYPE_ARRAY;
  types[1] = PERGOLA_TYPE_F32;
  types[2] = PERGOLA_TYPE_U32;
  bits[0] = (uint64_t)(uintptr_t)array;
  bits[1] = 0x40800000u; /* 4 */
  bits[2] = 32;
  CHECK(pergola_kernel_submit_values(kernel, &config, types, bits, 3, &ticket) == PERGOLA_OK);
  CHECK(pergola_array_read(array, 0, values, sizeof values) == PERGOLA_OK);
  for (i = 0; i < 32; ++i) CHECK(values[i] == 8.0f * (float)i);

  CHECK(pergola_session_destroy(session) == PERGOLA_OK);
  CHECK(pergola_session_destroy(session) == PERGOLA_INVALID_ARGUMENT);
  CHECK(pergola_array_read(array, 0, values, 4) == PERGOLA_OK); /* handles may go in any order */
  CHECK(pergola_event_destroy(event) == PERGOLA_OK);
  CHECK(pergola_array_destroy(array) == PERGOLA_OK);
  CHECK(pergola_kernel_destroy(kernel) == PERGOLA_OK);
  CHECK(pergola_module_destroy(module) == PERGOLA_OK);
  return 0;
}
