/* Pergola's C interface: the only ABI. Everything else (pergola.hpp, other languages) stands on it.
 *
 *   session ─┬─ load ──▶ module ──▶ kernel ── launch ──▶ event
 *            ├─ array_create ──▶ array ── read / write / fill / copy
 *            │                      └─ texture_create ──▶ texture
 *            └─ task_pool ──▶ task pool ── prepare ──▶ task kind ── spawn ──▶ id, for wait and check
 *
 * Handles are opaque numbers, never dereferenced by the library: a null, destroyed or foreign one gives
 * PERGOLA_INVALID_ARGUMENT and a message, not a crash. Whoever creates a handle destroys it; handles may be destroyed
 * in any order and at any time: what they stand for lives until nothing uses it, launches in flight included.
 *
 * Errors: every function returns a pergola_code; PERGOLA_OK is 0. After another value, pergola_last_error() on the same
 * thread is a sentence that says what was wrong and what to do.
 *
 * Order: work runs asynchronously and gives the results of the order in which it was submitted to its session. What
 * conflicts about an array or a module's variable is ordered by itself, from what the kernel's PTX reads and writes;
 * what does not may overlap. What a kernel does wrong while running is reported by the next call that waits for it
 * (pergola_event_wait, pergola_array_read, pergola_session_synchronize), with the kernel's name; until one has, reads of
 * arrays that the kernel has nothing to do with report nothing, as they wait for those arrays' work alone. Work that
 * depends on a failure is skipped, other work may be, until pergola_session_synchronize() has reported it.
 *
 * Processes: a child forked after the first session was made can use none of this; every call there is refused with
 * FAILED_PRECONDITION. exec() ends that.
 *
 * Threads: every function may be called from any thread at any time. Text that a function returns is UTF-8, ends with
 * a zero byte, and is owned by the handle it came from.
 *
 * Versions: every struct begins with its size as the caller knows it (PERGOLA_STRUCT_SIZE does it), so that a program
 * built against an older header goes on working. Zero is every other field's default.
 *
 *   pergola_session session;
 *   if (pergola_session_create(NULL, &session) != PERGOLA_OK) { puts(pergola_last_error()); return 1; }
 */
#ifndef PERGOLA_PERGOLA_H_
#define PERGOLA_PERGOLA_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PERGOLA_API __attribute__((visibility("default")))
#else
#define PERGOLA_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Major in the upper 16 bits, minor in the lower: a library serves every header of its major with a minor not above. */
#define PERGOLA_API_VERSION ((uint32_t)0x00000001u) /* 0.1 */

/* ── Results ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef int32_t pergola_code;
enum {
  PERGOLA_OK = 0,
  PERGOLA_INVALID_ARGUMENT = 1,    /* the caller's value is wrong */
  PERGOLA_NOT_FOUND = 2,           /* a name or file is not there */
  PERGOLA_UNSUPPORTED = 3,         /* understood, and this device or version cannot do it */
  PERGOLA_UNAVAILABLE = 4,         /* a driver, compiler or device is missing on this machine */
  PERGOLA_FAILED_PRECONDITION = 5, /* right call, wrong moment */
  PERGOLA_RESOURCE_EXHAUSTED = 6,  /* out of memory, slots, shared memory */
  PERGOLA_PARSE_ERROR = 7,         /* PTX or other text is malformed */
  PERGOLA_COMPILE_ERROR = 8,       /* a compiler refused the source */
  PERGOLA_DEVICE_FAULT = 9,        /* a kernel trapped, asserted or accessed memory it may not */
  PERGOLA_DEVICE_LOST = 10,        /* the device can no longer be used by this process */
  PERGOLA_IO = 11,                 /* the operating system refused a file or socket */
  PERGOLA_SKIPPED = 12,            /* not run, because work it depends on failed */
  PERGOLA_TIMEOUT = 13,
  PERGOLA_INTERNAL = 14,   /* a bug of the library, reported instead of crashing */
  PERGOLA_CALL_FAILED = 15 /* a function of the caller's, called by the library, returned an error, or ended a wait */
};

/* The PERGOLA_API_VERSION that the loaded library implements, and its release ("0.1.0"). Never fail. */
PERGOLA_API uint32_t pergola_api_version(void);
PERGOLA_API const char* pergola_version(void);

/* What the last failed call of this thread had to say; "" before any. Valid until this thread's next failed call. */
PERGOLA_API const char* pergola_last_error(void);

/* Of the calling thread: while it waits in the library because another thread is at the same array (in the function of a
 * library call, pergola_session_call(), for as long as that takes), or because it writes more to a GPU's array than is
 * staged (pergola_array_write()), `check(user)` is called on it some twenty times a second; once it returns other than
 * 0, the function that waits ends with CALL_FAILED, and has done nothing. Interpreters hear their signals so. It may
 * call the library, but may not throw. NULL: none, as at first. Never fails. */
typedef int32_t (*pergola_wait_check)(void* user);
PERGOLA_API void pergola_thread_set_check(pergola_wait_check check, void* user);

/* "invalid argument", "device fault", ...; "unknown error" for other numbers. Static text. */
PERGOLA_API const char* pergola_code_name(pergola_code code);

/* ── Handles and plain types ─────────────────────────────────────────────────────────────────────────────────────── */

typedef struct pergola_session_handle* pergola_session;
typedef struct pergola_module_handle* pergola_module;
typedef struct pergola_kernel_handle* pergola_kernel;
typedef struct pergola_array_handle* pergola_array;
typedef struct pergola_event_handle* pergola_event;
typedef struct pergola_texture_handle* pergola_texture;
typedef struct pergola_task_pool_handle* pergola_task_pool;
typedef struct pergola_task_kind_handle* pergola_task_kind;

/* The type of an array's elements or of a kernel argument. */
typedef int32_t pergola_type;
enum {
  PERGOLA_TYPE_BYTES = 0, /* elements of a struct, or a struct passed by value */
  PERGOLA_TYPE_I8 = 1,
  PERGOLA_TYPE_U8 = 2,
  PERGOLA_TYPE_I16 = 3,
  PERGOLA_TYPE_U16 = 4,
  PERGOLA_TYPE_I32 = 5,
  PERGOLA_TYPE_U32 = 6,
  PERGOLA_TYPE_I64 = 7,
  PERGOLA_TYPE_U64 = 8,
  PERGOLA_TYPE_F16 = 9,
  PERGOLA_TYPE_BF16 = 10,
  PERGOLA_TYPE_F32 = 11,
  PERGOLA_TYPE_F64 = 12,
  PERGOLA_TYPE_C64 = 13,     /* two floats; elements only */
  PERGOLA_TYPE_C128 = 14,    /* two doubles; elements only */
  PERGOLA_TYPE_BOOL = 15,    /* one byte, 0 or 1 */
  PERGOLA_TYPE_ARRAY = 32,   /* arguments only: a pergola_array */
  PERGOLA_TYPE_ADDRESS = 33, /* arguments only: a raw device address or 0; its memory is the caller's care */
  PERGOLA_TYPE_TEXTURE = 34  /* arguments only: a pergola_texture */
};

/* `pergola_array_options options = {PERGOLA_STRUCT_SIZE(pergola_array_options)};` */
#define PERGOLA_STRUCT_SIZE(type) sizeof(type)

/* ── Sessions ────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct pergola_session_options {
  size_t struct_size;
  /* "cpu", "cuda:0", "null", or NULL for what PERGOLA_DEVICE says; where that is unset too, the first GPU with a
   * working driver, else the CPU. Named explicitly, a device is taken or refused, never replaced by another. */
  const char* device;
  /* Scheduling policies, "name=value,..." or "name: value, ...": retrieve-new-stream=reuse|always-new,
   * retrieve-parent-stream=disjoint|same-as-parent, dependency=with-const|no-const, execution=async|sync,
   * max-streams=N, fork-cost=US, graphs=measured|recurring|off|always, turns=measured|leads|whole|launches,
   * memory=device|managed, blocks=..., tasks=off|small (docs/scheduling.md).
   * NULL for what PERGOLA_SCHEDULER says, else the first of each. Managed memory moves to whichever side uses it;
   * UNSUPPORTED on a device that has none. */
  const char* scheduler;
} pergola_session_options;

typedef struct pergola_device_info {
  size_t struct_size;
  const char* id;     /* "cpu", "cuda:0", "null" */
  const char* name;   /* "NVIDIA H200", "CPU (interpreter)" */
  const char* driver; /* version text, "" where there is none */
  uint32_t compute_major, compute_minor;
  uint32_t sm_count;
  uint32_t warp_size_threads;
  uint32_t max_threads_per_block;
  uint32_t max_block[3], max_grid[3];
  uint32_t max_shared_bytes_per_block;
  uint64_t memory_bytes;
} pergola_device_info;

/* Opens a session. `options` may be NULL. UNAVAILABLE where the device is not there, with what to install. */
PERGOLA_API pergola_code pergola_session_create(const pergola_session_options* options, pergola_session* session);
/* Waits for the session's work unless arrays or modules of it live on; they keep it, and work, till they go. */
PERGOLA_API pergola_code pergola_session_destroy(pergola_session session);
PERGOLA_API pergola_code pergola_session_device(pergola_session session, pergola_device_info* info);
/* Blocks until all work submitted before has ended; reports the first failure since the last call and clears it. */
PERGOLA_API pergola_code pergola_session_synchronize(pergola_session session);
/* The same, for so long (negative: for ever): TIMEOUT where some of the work goes on then, and nothing is reported or
 * cleared. Where some has failed and the rest of what had been submitted has ended, what other threads have queued since
 * is waited for before that is told, however long it takes. Each call is of all work before it: in a loop of calls, of
 * what comes between them too. */
PERGOLA_API pergola_code pergola_session_synchronize_for(pergola_session session, int64_t timeout_ns);
/* An event that ends with all launches, fills and copies before it; narrow tasks are waited for by their ids. */
PERGOLA_API pergola_code pergola_session_record(pergola_session session, pergola_event* event);
/* The work submitted last (1024 pieces of it) as a graph, each edge with its array and hazard: `format` is "svg",
 * "dot" or "mermaid". The text stands until this thread's next call for any graph. */
PERGOLA_API pergola_code pergola_session_dag(pergola_session session, const char* format, const char** text);
/* Which launches recurred and were run as graphs, since when and in which way, and why others were not: scalars that
 * change, too little work on the device, an instruction that is in the way. `format` is "text", for people, or "json",
 * with what docs/observability.md lists. The text stands until this thread's next call of this function. Waits for
 * nothing. */
PERGOLA_API pergola_code pergola_session_graphs(pergola_session session, const char* format, const char** text);
/* Records what is submitted from now on: times on the device of every kernel, copy and fill, waits of the host, what
 * depended on what. `path` is the file to be written (a relative one in the folder of this moment), in the Trace Event
 * Format, which ui.perfetto.dev opens; with NULL, waits for the work recorded so far, writes, and ends the recording, as
 * the session's end does (the newest 65536 pieces of work are kept, the file says how many were not). A recording that
 * is on is ended first. IO at once where the file cannot be written, FAILED_PRECONDITION where another session's trace
 * to it is on, which would replace it. Recording costs two events a piece of work; without
 * it nothing is measured.
 * PERGOLA_TRACE=FILE begins with the session. */
PERGOLA_API pergola_code pergola_session_trace(pergola_session session, const char* path);
/* The same for kernels' times by size: count, mean and least, added to what the file has when it is written.
 * PARSE_ERROR where `path` is a file that is no history; it is left as it is. PERGOLA_HISTORY=FILE begins with the
 * session. */
PERGOLA_API pergola_code pergola_session_history(pergola_session session, const char* path);
/* Begins with the times of an earlier run's history, and records nothing: what is expected of a kernel that has not been
 * launched yet at a size is what the file has of it, until it has been timed here. Recurring launches become graphs as
 * without it. NOT_FOUND where there is no such file, PARSE_ERROR where it is no history. PERGOLA_USE_HISTORY=FILE does so
 * with the session. */
PERGOLA_API pergola_code pergola_session_use_history(pergola_session session, const char* path);
/* Ends the trace and the history that are on, as the two with NULL, but waits for the work recorded so far no longer than
 * that (negative: for ever): TIMEOUT where some of it goes on. It is in neither file, and the trace counts it. For a
 * program that ends while work goes on, which might never end. */
PERGOLA_API pergola_code pergola_session_end_recordings(pergola_session session, int64_t timeout_ns);
/* In which way graphs of recurring launches ran fastest, kept from one session to the next: what is found of graphs that
 * are made from now on is added to the file `path` by a call with NULL, which waits for nothing, or by the session's end,
 * and what the file has is made first instead of being found anew. A way that was kept is measured before it stays.
 * PARSE_ERROR where `path` is a file that is no tuning, IO where it cannot be written; it is left as it is.
 * PERGOLA_TUNING=FILE begins with the session. Only NVIDIA GPUs have several ways. */
PERGOLA_API pergola_code pergola_session_tuning(pergola_session session, const char* path);

/* ── Modules and kernels ─────────────────────────────────────────────────────────────────────────────────────────── */

typedef int32_t pergola_language;
enum {
  PERGOLA_LANGUAGE_AUTO = 0, /* files by their ending (.ptx, .cu), text by how it begins (PTX has a .version) */
  PERGOLA_LANGUAGE_CUDA = 1,
  PERGOLA_LANGUAGE_PTX = 2
};

typedef struct pergola_load_options {
  size_t struct_size;
  pergola_language language;
  uint32_t reserved;
  const char* name;                  /* for messages; NULL: the path, or "<string>" */
  const char* const* compiler_flags; /* "-DN=4", "-Iinclude"; CUDA only */
  size_t compiler_flag_count;
} pergola_load_options;

/* Compiles CUDA C++ where needed, checks the PTX and loads it. COMPILE_ERROR carries the compiler's log, PARSE_ERROR
 * file:line:column, UNAVAILABLE the compiler to install, UNSUPPORTED (the device runs no kernel of it) the instruction.
 * Blocks while compiling. `options` may be NULL. */
PERGOLA_API pergola_code pergola_session_load_file(pergola_session session, const char* path,
                                                   const pergola_load_options* options, pergola_module* module);
PERGOLA_API pergola_code pergola_session_load_text(pergola_session session, const char* text, size_t size_bytes,
                                                   const pergola_load_options* options, pergola_module* module);
PERGOLA_API pergola_code pergola_module_destroy(pergola_module module);

/* The names of a module's kernels, as in its PTX (mangled where the source was), those that the device refuses
 * included. OK and NULL past the last. */
PERGOLA_API pergola_code pergola_module_kernel_name(pergola_module module, size_t index, const char** name);

/* Why the device cannot run the kernel of that index, as pergola_module_kernel would say; "" where it can, and past the
 * last. The text is the module's. */
PERGOLA_API pergola_code pergola_module_kernel_refusal(pergola_module module, size_t index, const char** reason);

/* Finds a kernel by its name in the PTX or, where just one kernel fits, by its plain C++ name ("scale" for
 * "_Z5scalePfi", "ns::scale" too). NOT_FOUND lists what is there; UNSUPPORTED names the line and the instruction that
 * the device cannot run: a kernel is refused here, never when it runs, and others of its module can be used. */
PERGOLA_API pergola_code pergola_module_kernel(pergola_module module, const char* name, pergola_kernel* kernel);
/* The same kernel with a signature, in GrCUDA's NIDL ("saxpy(x: in pointer float, y: inout pointer float, n: sint32,
 * a: float)"; names may be left out) or as for Truffle's NFI ("const pointer, pointer, sint32, float"). It overrides
 * what was found in the PTX where that leaves a doubt; where each pointer has a direction (in, input or const; out or
 * output; inout), the kernel is ordered by its arguments alone. PARSE_ERROR names the column; INVALID_ARGUMENT the
 * instruction that does otherwise. NULL declares nothing; "" is the signature of a kernel without parameters. */
PERGOLA_API pergola_code pergola_module_kernel_as(pergola_module module, const char* name, const char* signature,
                                                  pergola_kernel* kernel);
PERGOLA_API pergola_code pergola_kernel_destroy(pergola_kernel kernel);

/* How memory is used. UNKNOWN: not analysed, take it as READ_WRITE. */
typedef int32_t pergola_access;
enum {
  PERGOLA_ACCESS_NONE = 0,
  PERGOLA_ACCESS_READ = 1,
  PERGOLA_ACCESS_WRITE = 2,
  PERGOLA_ACCESS_READ_WRITE = 3,
  PERGOLA_ACCESS_UNKNOWN = 4
};

typedef struct pergola_kernel_info {
  size_t struct_size;
  const char* name; /* as in the PTX */
  size_t parameter_count;
  uint32_t parameter_bytes;
  uint32_t static_shared_bytes;
  uint32_t registers_per_thread; /* 0 where the device has no notion of it */
  uint32_t local_bytes_per_thread;
  uint32_t max_threads_per_block;
  uint32_t required_block[3]; /* .reqntid; 0 where the kernel asks for none */
  /* Accesses that cannot be traced to one parameter: then every array counts as accessed so. */
  pergola_access universal_access;
  const char* universal_reason; /* "" where there is none */
} pergola_kernel_info;
PERGOLA_API pergola_code pergola_kernel_get_info(pergola_kernel kernel, pergola_kernel_info* info);

typedef int32_t pergola_parameter_kind;
enum {
  PERGOLA_PARAMETER_INTEGER = 0, /* 1, 2, 4 or 8 bytes; one of 8 may as well be a pointer: PTX does not tell */
  PERGOLA_PARAMETER_FLOAT = 1,
  PERGOLA_PARAMETER_BITS = 2, /* only the size is known */
  PERGOLA_PARAMETER_POINTER = 3,
  PERGOLA_PARAMETER_STRUCT = 4
};

/* What a signature says of a pointer. */
typedef int32_t pergola_direction;
enum {
  PERGOLA_DIRECTION_NONE = 0, /* nothing; or there is no signature, or the parameter is a number */
  PERGOLA_DIRECTION_IN = 1,
  PERGOLA_DIRECTION_OUT = 2,
  PERGOLA_DIRECTION_INOUT = 3
};

typedef struct pergola_parameter_info {
  size_t struct_size;
  const char* name;      /* "saxpy_param_2" */
  const char* type_name; /* PTX: "u64", "f32"; "b8" of a struct */
  pergola_parameter_kind kind;
  uint32_t offset_bytes, size_bytes, align_bytes;
  /* What the kernel does with the memory that this parameter points at; of a struct, through any of its fields. */
  pergola_access access;
  const char* reason;          /* "written by st.global.f32 at <PTX of saxpy.cu>:42:3" */
  pergola_direction direction; /* where there is one, `access` is that */
  const char* declaration;     /* of the signature, "x: in pointer float"; "" without one */
} pergola_parameter_info;
/* INVALID_ARGUMENT past the last parameter. */
PERGOLA_API pergola_code pergola_kernel_parameter(pergola_kernel kernel, size_t index, pergola_parameter_info* info);

/* ── Launches ────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct pergola_launch_config {
  size_t struct_size;
  uint32_t grid[3];  /* blocks; 0 in y or z counts as 1 */
  uint32_t block[3]; /* threads a block; 0 in y or z counts as 1 */
  uint32_t dynamic_shared_bytes;
  uint32_t flags;
} pergola_launch_config;
enum {
  PERGOLA_LAUNCH_COOPERATIVE = 1, /* all blocks resident at once, or refused */
  PERGOLA_LAUNCH_MAY_BE_EMPTY = 2 /* a grid of 0 blocks in x checks the arguments and runs nothing */
};

/* One kernel argument, made by the pergola_arg_* functions below. */
typedef struct pergola_argument {
  size_t struct_size; /* the same in every element of a list */
  pergola_type type;
  uint32_t reserved;
  union {
    int8_t i8;
    uint8_t u8; /* BOOL too */
    int16_t i16;
    uint16_t u16; /* F16 and BF16 too: their bits */
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64; /* ADDRESS too */
    float f32;
    double f64;
    pergola_array array;
    pergola_texture texture;
    const void* bytes; /* BYTES: copied before the launch returns */
  } value;
  size_t size_bytes;   /* BYTES: how many. ARRAY: how much of it is meant from there, as a hint (docs/scheduling.md,
                          parts of arrays); 0: nobody says. A kernel may reach all of the array in any case. */
  size_t offset_bytes; /* ARRAY: where the pointer starts; a multiple of the element's size */
} pergola_argument;

/* Queues one grid. Arguments are checked first: their count, and for each its size and its class (integer, float,
 * struct, memory); INVALID_ARGUMENT names the argument, what it should be and what it is. Nothing is converted: an
 * i32 or u32 fits a 4-byte integer, an f64 does not fit an f32. Of the elements of arrays, without a signature, only
 * that floats are no doubles, where one of them is all that the kernel moves there. `event` may be NULL. Arrays stay
 * alive until the launch has ended, even if destroyed meanwhile. */
PERGOLA_API pergola_code pergola_kernel_launch(pergola_kernel kernel, const pergola_launch_config* config,
                                               const pergola_argument* arguments, size_t argument_count,
                                               pergola_event* event);

/* The same, without the event, which costs: *ticket stands for it (0: nothing was launched) and costs nothing. */
PERGOLA_API pergola_code pergola_kernel_submit(pergola_kernel kernel, const pergola_launch_config* config,
                                               const pergola_argument* arguments, size_t argument_count,
                                               uint64_t* ticket);
/* The same, for arguments that are numbers, addresses, textures and arrays from their begin: argument i is of types[i],
 * and values[i] its bits, of a number in the low bytes and the others 0, or the handle. Where the same launches come
 * again and again there is a third to write and to compare. BYTES are for pergola_kernel_submit(). */
PERGOLA_API pergola_code pergola_kernel_submit_values(pergola_kernel kernel, const pergola_launch_config* config,
                                                      const pergola_type* types, const uint64_t* values,
                                                      size_t argument_count, uint64_t* ticket);
/* An event of that launch. It is exact where the launch is the last of its stream still (asked for at once it always
 * is), else it ends with later work of that stream. Ticket 0: an event behind all work so far. */
PERGOLA_API pergola_code pergola_kernel_event(pergola_kernel kernel, uint64_t ticket, pergola_event* event);

/* A one-dimensional shape with at least `count` threads that suits the kernel (its .reqntid and limits); for 0, one
 * that launches nothing. Fills `config` but its struct_size. */
PERGOLA_API pergola_code pergola_kernel_for_each(pergola_kernel kernel, uint64_t count, pergola_launch_config* config);

/* ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef struct pergola_array_options {
  size_t struct_size;
  pergola_type type;      /* of an element; any but ARRAY and ADDRESS */
  uint32_t element_bytes; /* BYTES only: the size of a struct, 0 counts as 1 */
  uint64_t count;         /* elements; may be 0 */
} pergola_array_options;

/* Where an array's newest contents are: see pergola_array_host. */
typedef int32_t pergola_location;
enum { PERGOLA_LOCATION_DEVICE = 1, PERGOLA_LOCATION_HOST = 2, PERGOLA_LOCATION_BOTH = 3 };

typedef struct pergola_array_info {
  size_t struct_size;
  pergola_type type;
  uint32_t element_bytes;
  uint64_t count;
  uint64_t size_bytes;
  uint64_t address; /* on the device; 256-byte aligned. Passed inside a struct, it does not keep the array alive */
  pergola_location location; /* at the moment */
} pergola_array_info;

/* Uninitialised memory on the session's device: perhaps that of an array of the same size that has gone. Waits where
 * memory is short, or much that has gone is still used. */
PERGOLA_API pergola_code pergola_array_create(pergola_session session, const pergola_array_options* options,
                                              pergola_array* array);

typedef struct pergola_foreign_memory {
  size_t struct_size;
  uint64_t address; /* on the device; believed */
  /* The CUDA stream whose work makes what is in it: a CUstream, 1 the legacy default stream, 2 the thread's; 0: none.
   */
  uint64_t stream;
  void (*release)(void* owner); /* called once, when nothing uses the memory any more */
  void* owner;
} pergola_foreign_memory;

/* An array in memory that another library allocated on the session's device; blocks until the stream's work has ended.
 * `release` may be called by any thread, with locks held: it calls nothing of Pergola and waits for nothing. It is not
 * called where this fails. UNSUPPORTED where the device shares no memory with other libraries (cpu, null). */
PERGOLA_API pergola_code pergola_array_adopt(pergola_session session, const pergola_array_options* options,
                                             const pergola_foreign_memory* memory, pergola_array* array);
PERGOLA_API pergola_code pergola_array_destroy(pergola_array array);
/* Who has the address may have told others of it: once such an array has gone its memory is freed, behind all that the
 * context's streams do, and never kept for another array. */
PERGOLA_API pergola_code pergola_array_get_info(pergola_array array, pergola_array_info* info);

/* By which pictures of the DAG, traces and messages speak of it ("array 3"): in its session's order, from 1. */
PERGOLA_API pergola_code pergola_array_number(pergola_array array, uint64_t* number);

/* Queues a copy from the host; `data` is taken before the call returns. Where much of that waits for its turn already
 * (the CPU device: 256 MiB; GPUs: 2 MiB), the call waits for earlier work. */
PERGOLA_API pergola_code pergola_array_write(pergola_array array, uint64_t offset_bytes, const void* data,
                                             uint64_t size_bytes);
/* Waits for the work that made these bytes, and for no more; returns how it ended. A negative timeout waits for ever;
 * else TIMEOUT when it is over and the work goes on. Of 0 bytes it waits for tasks alone that were given the array. */
PERGOLA_API pergola_code pergola_array_wait(pergola_array array, uint64_t offset_bytes, uint64_t size_bytes,
                                            int64_t timeout_ns);
/* Waits for the work that made the data and copies it into `data`. */
PERGOLA_API pergola_code pergola_array_read(pergola_array array, uint64_t offset_bytes, void* data,
                                            uint64_t size_bytes);
/* As read, of the whole array into memory that the array owns (page-locked where that is faster). It is a copy of this
 * moment, valid until the next view, host access or prefetch of this array or its destruction. */
PERGOLA_API pergola_code pergola_array_view(pergola_array array, const void** data, uint64_t* size_bytes);
/* The whole array for the host to work on by pointer, until the array is next given to anything else (a launch, a copy,
 * another call of this section), or a kernel is launched whose accesses may be to any array (it then counts as given to
 * that). Page-locked memory that mirrors the device's, and copies that nobody waits for but the host where it reads:
 * the fastest way in and out of a GPU. Where the host reaches the array itself (cpu, memory=managed), that, and kernels
 * that use it are waited for. `access`: PERGOLA_ACCESS_READ waits for the work that made the contents; _WRITE only for
 * copies of earlier contents, and every byte is to be written; _READ_WRITE as _READ. What was written goes up before
 * the next use on the device. Tells, as every wait does, of work that failed. A negative timeout waits for ever; else
 * TIMEOUT when it is over. Threads that use one array on both sides at once order that by themselves. What others
 * change in memory that they share by its address is seen by read and view, and by this of adopted arrays alone. */
PERGOLA_API pergola_code pergola_array_host(pergola_array array, pergola_access access, int64_t timeout_ns, void** data,
                                            uint64_t* size_bytes);
/* Queues the copy that brings the contents there, if they are not: PERGOLA_LOCATION_DEVICE or _HOST. */
PERGOLA_API pergola_code pergola_array_prefetch(pergola_array array, pergola_location to);
/* Queues a fill: every element becomes `value`, of element_bytes bytes. */
PERGOLA_API pergola_code pergola_array_fill(pergola_array array, const void* value);
/* Queues a fill of a part: these bytes become `value`, of value_bytes bytes, over and over. INVALID_ARGUMENT where it
 * does not go into size_bytes a whole number of times. */
PERGOLA_API pergola_code pergola_array_fill_range(pergola_array array, uint64_t offset_bytes, uint64_t size_bytes,
                                                  const void* value, uint64_t value_bytes);
/* Queues a copy between arrays of one session, which may be the same if the ranges do not overlap. A range to itself
 * needs no copy, and is none. */
PERGOLA_API pergola_code pergola_array_copy(pergola_array destination, uint64_t destination_offset_bytes,
                                            pergola_array source, uint64_t source_offset_bytes, uint64_t size_bytes);

/* ── Calls of other libraries ─────────────────────────────────────────────────────────────────────────────────── */

typedef struct pergola_call_access {
  size_t struct_size; /* the same in every element of a list */
  pergola_array array;
  uint64_t offset_bytes;
  uint64_t size_bytes; /* 0: to the array's end */
  pergola_access mode; /* READ, WRITE or READ_WRITE; UNKNOWN counts as READ_WRITE */
  uint32_t reserved;
} pergola_call_access;

enum { PERGOLA_CALL_SYNCHRONOUS = 1 /* the library takes no stream */ };

/* Queues work of a library on `stream`, a CUstream, and returns 0 or the library's error. It throws nothing. */
typedef int32_t (*pergola_call_function)(void* stream, void* user);

/* A call of another library (cuBLAS, cuFFT ...) as one piece of work that uses the arrays as declared. `function` is
 * called once, on this thread, before this returns: with the stream that was chosen for the work and waits for what it
 * depends on. The stream's context is current, and remains so. On a device without streams (cpu, null) and with
 * PERGOLA_CALL_SYNCHRONOUS, all that the work depends on is waited for, `stream` is NULL, and the work has been done
 * when `function` returns (on a GPU, when the default streams have done what it left there). `name` is for pictures and
 * recordings: one for each kind of call, as it is kept. CALL_FAILED tells the function's error; what it had queued by
 * then keeps its place. While `function` runs, other threads' work that conflicts waits; `function` itself can submit
 * to its session and wait for its work no more than it can begin another call: FAILED_PRECONDITION. */
PERGOLA_API pergola_code pergola_session_call(pergola_session session, const char* name,
                                              const pergola_call_access* accesses, size_t access_count, uint32_t flags,
                                              pergola_call_function function, void* user);

/* Streams of other libraries on the session's device: a CUstream or cudaStream_t as a number, 0 and 1 the legacy
 * default stream, 2 the calling thread's. The number is believed. UNSUPPORTED on a device without streams (cpu, null).
 * Neither call waits but for narrow tasks that go on; failures of a stream's work are told as the device's.
 * wait_stream: work submitted from now on, and reads and writes of the host, come after what is on the stream now.
 * make_stream_wait: the stream's later work comes after all work submitted here before. */
PERGOLA_API pergola_code pergola_session_wait_stream(pergola_session session, uint64_t stream);
PERGOLA_API pergola_code pergola_session_make_stream_wait(pergola_session session, uint64_t stream);

/* ── Textures ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Beyond an image's edge; WRAP and MIRROR need NORMALIZED_COORDINATES. BORDER gives zeros. */
typedef int32_t pergola_address_mode;
enum { PERGOLA_ADDRESS_CLAMP = 0, PERGOLA_ADDRESS_WRAP = 1, PERGOLA_ADDRESS_MIRROR = 2, PERGOLA_ADDRESS_BORDER = 3 };
typedef int32_t pergola_filter;
enum { PERGOLA_FILTER_NEAREST = 0, PERGOLA_FILTER_LINEAR = 1 };
enum {
  PERGOLA_TEXTURE_NORMALIZED_COORDINATES = 1, /* from 0 to 1 instead of 0 to the extent */
  PERGOLA_TEXTURE_NORMALIZED_READ = 2,        /* 8- and 16-bit integers read as floats in [0, 1] or [-1, 1] */
  PERGOLA_TEXTURE_FETCHED = 4                 /* one dimension, read by tex1Dfetch and not sampled */
};

typedef struct pergola_texture_options {
  size_t struct_size;
  uint32_t dimensions;             /* 1, 2 or 3; 0 counts as 2 */
  uint32_t extent[3];              /* width, height, depth in texels; 0 counts as 1 */
  pergola_type type;               /* of a channel: I8 U8 I16 U16 I32 U32 F16 F32 */
  uint32_t channels;               /* 1, 2 or 4; 0 counts as 1 */
  uint64_t offset_bytes;           /* where the first texel is in the array */
  uint64_t pitch_bytes;            /* from row to row; 0: rows touch */
  pergola_address_mode address[3]; /* of x, y, z */
  pergola_filter filter;           /* LINEAR: of floats alone, or with NORMALIZED_READ */
  uint32_t flags;
} pergola_texture_options;

/* The texels that the array has once all work submitted before has ended, which this waits for; what is written later
 * is not seen. A kernel takes it as its cudaTextureObject_t. INVALID_ARGUMENT names the field that is wrong. */
PERGOLA_API pergola_code pergola_texture_create(pergola_array array, const pergola_texture_options* options,
                                                pergola_texture* texture);
PERGOLA_API pergola_code pergola_texture_destroy(pergola_texture texture);

/* ── Events ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

PERGOLA_API pergola_code pergola_event_destroy(pergola_event event);
/* Blocks until the work has ended and returns how. A negative timeout waits for ever; else TIMEOUT when it is over. */
PERGOLA_API pergola_code pergola_event_wait(pergola_event event, int64_t timeout_ns);
/* *done is 1 when the work has ended, well or not; 0 while it goes on. */
PERGOLA_API pergola_code pergola_event_done(pergola_event event, int32_t* done);
/* Device time from the end of `start` to the end of `end`, both of which must have ended. */
PERGOLA_API pergola_code pergola_event_elapsed_ns(pergola_event start, pergola_event end, double* nanoseconds);

/* ── Narrow tasks ────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Launches of a few warps, spawned one by one as they appear, that together fill the device (Pagoda, sections 3 and 4):
 * a resident kernel that has these kernels in it takes them up, so that none is a launch of its own; on the CPU device
 * threads run them. Any thread may spawn. A task comes after the session's work so far on the arrays it is given, and
 * is held back on the host while that goes on; where that fails, the task is not run and fails as SKIPPED. Tasks are in
 * no order with each other: whoever wants one waits for one before spawning the next. The session's later work on an
 * array, a read too, comes after all tasks that were given it. Which kernels can be tasks: docs/tasks.md. */

/* Who runs a pool's tasks. */
typedef enum pergola_task_executor {
  PERGOLA_TASK_EXECUTOR_USUAL = 0,    /* threads on the CPU device, a resident kernel on a GPU; or what the variable
                                         PERGOLA_TASK_EXECUTOR names, "resident" or "threads" */
  PERGOLA_TASK_EXECUTOR_RESIDENT = 1, /* a resident kernel */
  PERGOLA_TASK_EXECUTOR_THREADS = 2   /* threads of the CPU device; UNSUPPORTED on others */
} pergola_task_executor;

typedef struct pergola_task_pool_options {
  size_t struct_size;
  uint32_t blocks;       /* resident ones, or threads; 0: as many as the device holds */
  uint32_t executor;     /* pergola_task_executor */
  int64_t park_after_ns; /* without work the resident kernel ends after that; to the next microsecond; 0: 200000 */
  uint32_t no_fences;    /* not 0: a task's wild access or trap on a resident kernel is the device's fault, and not the
                            task's own failure; PERGOLA_TASK_FENCES, "on" or "off", counts where it is set */
  uint32_t slices;       /* not 0: traces have a slice for each task (docs/observability.md); PERGOLA_TASK_SLICES, "on"
                            or "off", counts where it is set */
} pergola_task_pool_options;

/* The session's pool: one, made by the first call, whose options count; every call gives a handle of its own. `options`
 * may be NULL. UNSUPPORTED where the device cannot run it. */
PERGOLA_API pergola_code pergola_session_task_pool(pergola_session session, const pergola_task_pool_options* options,
                                                   pergola_task_pool* pool);
/* Waits for nothing: tasks under way go on, and the pool lives with its session. */
PERGOLA_API pergola_code pergola_task_pool_destroy(pergola_task_pool pool);

/* A kernel with a shape, ready to be spawned. UNSUPPORTED, with the line and the numbers, where the kernel cannot be a
 * task or asks for more than the pool's shape has. Compiles while tasks run; then those under way end, and others may
 * be spawned meanwhile. The same kernel and shape again are ready at once. */
PERGOLA_API pergola_code pergola_task_pool_prepare(pergola_task_pool pool, pergola_kernel kernel,
                                                   const pergola_launch_config* config, pergola_task_kind* kind);
/* Compiles what pergola_task_pool_prepare() would for these kernels, together, in about the time of one: all, or none.
 * A kernel that the pool has already costs nothing. `kernels` is read until it returns. */
PERGOLA_API pergola_code pergola_task_pool_add_kernels(pergola_task_pool pool, const pergola_kernel* kernels,
                                                       size_t count);
PERGOLA_API pergola_code pergola_task_kind_destroy(pergola_task_kind kind);
/* Which task goes first where several wait: on the host for room, in a resident block for warps, on the CPU device for
 * a thread. Those that run go on. */
typedef enum pergola_task_priority {
  PERGOLA_TASK_PRIORITY_NORMAL = 0, /* what a prepared kind's tasks have */
  PERGOLA_TASK_PRIORITY_HIGH = 1
} pergola_task_priority;
/* Another kind, of the same kernel and shape, whose tasks have that priority. */
PERGOLA_API pergola_code pergola_task_kind_with_priority(pergola_task_kind kind, pergola_task_priority priority,
                                                         pergola_task_kind* other);

/* What stands for the kind on the device: an argument (uint64_t) of kernels that spawn tasks of it while they run as
 * tasks (pergola/device/tasks.h); valid for as long as the session. UNSUPPORTED, with the numbers, where the kernel has
 * more than 48 bytes of parameters or the grid is too large. A task is done when all that it has spawned, and they, are
 * done, and fails with what the first of them fails with. */
PERGOLA_API pergola_code pergola_task_kind_on_device(pergola_task_kind kind, uint64_t* handle);

/* Spawns one task; *id, which may be NULL, is never 0 and stands for it in its pool. Checks the arguments as
 * pergola_kernel_launch does. Waits where too many tasks are under way, or held back; not for the work on the arrays. A
 * failure that pergola_session_synchronize has not reported is an error here too. */
PERGOLA_API pergola_code pergola_task_spawn(pergola_task_kind kind, const pergola_argument* arguments,
                                            size_t argument_count, uint64_t* id);
/* The same with all parameters as the kernel's signature lays them out (pergola_parameter_info's offsets; pointers are
 * addresses on the device), copied before this returns: the quickest way. `size_bytes` is pergola_kernel_info's
 * parameter_bytes. Nothing else is checked, and there is no order with the session's other work: what the parameters
 * point at must be ready, and stay until the task has ended. */
PERGOLA_API pergola_code pergola_task_spawn_packed(pergola_task_kind kind, const void* parameters, size_t size_bytes,
                                                   uint64_t* id);
/* `count` tasks at once, in a fraction of the time of as many calls: the parameters of each as above, `size_bytes` long
 * and `stride_bytes` after those of the one before (0: size_bytes). `ids`, which may be NULL, has room for `count`.
 * Waits where too many tasks are under way. *spawned, which may be NULL, is how many there are: all, unless this
 * returns an error; those go on. */
PERGOLA_API pergola_code pergola_task_spawn_many(pergola_task_kind kind, const void* parameters, size_t size_bytes,
                                                 size_t stride_bytes, size_t count, uint64_t* ids, size_t* spawned);

/* An argument that is another number for each of many tasks. */
typedef struct pergola_task_column {
  size_t struct_size;  /* the same in every element of a list */
  size_t argument;     /* its place among the arguments, which has a number of the type as a sample */
  const void* values;  /* one for each task, each as large as the parameter */
  size_t stride_bytes; /* from one to the next; 0: as large as the sample */
} pergola_task_column;
/* `count` tasks at once with the same arguments but for those that columns are of; checked, and ordered with the
 * session's other work, as pergola_task_spawn does it for one. ids and spawned as for pergola_task_spawn_many. */
PERGOLA_API pergola_code pergola_task_spawn_each(pergola_task_kind kind, const pergola_argument* arguments,
                                                 size_t argument_count, const pergola_task_column* columns,
                                                 size_t column_count, size_t count, uint64_t* ids, size_t* spawned);

/* Blocks until the task has ended and returns how. A negative timeout waits for ever; else TIMEOUT when it is over. An
 * id of another pool, or 0, is INVALID_ARGUMENT. */
PERGOLA_API pergola_code pergola_task_wait(pergola_task_pool pool, uint64_t id, int64_t timeout_ns);
/* *done is 1 when the task has ended, 0 while it goes on; returns what it failed with. Never blocks. */
PERGOLA_API pergola_code pergola_task_check(pergola_task_pool pool, uint64_t id, int32_t* done);
/* As pergola_task_wait, for all tasks of the pool that were spawned before the call. Where tasks have failed by
 * themselves and nobody has been told: the first one's error, and which they are; told once. An access of the
 * host that waits for tasks of its array tells the same, of all that have ended by then. */
PERGOLA_API pergola_code pergola_task_wait_all(pergola_task_pool pool, int64_t timeout_ns);
/* Ends the resident kernel, where there is one, once the tasks under way have ended; the next spawn starts it again. */
PERGOLA_API pergola_code pergola_task_pool_park(pergola_task_pool pool);

typedef struct pergola_task_pool_info {
  size_t struct_size;
  uint32_t blocks;                 /* of the resident kernel; else threads, and what is said of the kernel is 0 */
  uint32_t registers_per_thread;   /* of it, with all kinds so far; 0 before the first launch */
  uint32_t local_bytes_per_thread; /* what it spills, and the kernels' own local memory */
  uint32_t most_threads;           /* of a block of a task */
  uint32_t most_shared_bytes;      /* of a block of a task */
  int32_t is_running;              /* 1: the resident kernel is on the device now */
  uint64_t memory_bytes;           /* of the pool, on host and device */
  uint64_t launches;               /* of the resident kernel: the first, after parking, for new kinds */
  uint64_t spawned;                /* by the host; those in `held` come to it when they are spawned */
  uint64_t spawned_by_tasks;       /* by tasks; of a resident kernel: as it was when it last parked */
  uint64_t held;                   /* tasks that wait, on the host, for ordinary work before them */
  int32_t streams_wait;            /* 1: for tasks; 0: the host does before it launches what comes after some */
} pergola_task_pool_info;
PERGOLA_API pergola_code pergola_task_pool_get_info(pergola_task_pool pool, pergola_task_pool_info* info);

/* ── Making arguments in C ───────────────────────────────────────────────────────────────────────────────────────── */

#define PERGOLA_ARGUMENT_(suffix, ctype, enumerator, field)                           \
  static inline pergola_argument pergola_arg_##suffix(ctype value) {                  \
    pergola_argument argument = {sizeof(pergola_argument), enumerator, 0, {0}, 0, 0}; \
    argument.value.u64 = 0; /* {0} need not set more than the first member */         \
    argument.value.field = value;                                                     \
    return argument;                                                                  \
  }
PERGOLA_ARGUMENT_(i8, int8_t, PERGOLA_TYPE_I8, i8)
PERGOLA_ARGUMENT_(u8, uint8_t, PERGOLA_TYPE_U8, u8)
PERGOLA_ARGUMENT_(i16, int16_t, PERGOLA_TYPE_I16, i16)
PERGOLA_ARGUMENT_(u16, uint16_t, PERGOLA_TYPE_U16, u16)
PERGOLA_ARGUMENT_(i32, int32_t, PERGOLA_TYPE_I32, i32)
PERGOLA_ARGUMENT_(u32, uint32_t, PERGOLA_TYPE_U32, u32)
PERGOLA_ARGUMENT_(i64, int64_t, PERGOLA_TYPE_I64, i64)
PERGOLA_ARGUMENT_(u64, uint64_t, PERGOLA_TYPE_U64, u64)
PERGOLA_ARGUMENT_(f32, float, PERGOLA_TYPE_F32, f32)
PERGOLA_ARGUMENT_(f64, double, PERGOLA_TYPE_F64, f64)
PERGOLA_ARGUMENT_(array, pergola_array, PERGOLA_TYPE_ARRAY, array)
PERGOLA_ARGUMENT_(address, uint64_t, PERGOLA_TYPE_ADDRESS, u64)
PERGOLA_ARGUMENT_(texture, pergola_texture, PERGOLA_TYPE_TEXTURE, texture)
#undef PERGOLA_ARGUMENT_

static inline pergola_argument pergola_arg_bytes(const void* data, size_t size_bytes) {
  pergola_argument argument = {sizeof(pergola_argument), PERGOLA_TYPE_BYTES, 0, {0}, 0, 0};
  argument.value.bytes = data;
  argument.size_bytes = size_bytes;
  return argument;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* PERGOLA_PERGOLA_H_ */
