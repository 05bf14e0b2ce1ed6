#include "src/device/cuda/cuda_graph.h"

#include <algorithm>
#include <typeinfo>

#include "src/base/plural.h"
#include "src/device/copies_together.h"
#include "src/device/cuda/cuda_module.h"
#include "src/device/cuda/cuda_queue.h"
#include "src/device/validate.h"

namespace pergola::device::cuda {
namespace {

CUDA_KERNEL_NODE_PARAMS kernel_work(const CudaKernel& kernel, const LaunchConfig& config, ParameterList& list) {
  CUDA_KERNEL_NODE_PARAMS work{};
  work.func = kernel.function();
  work.gridDimX = config.grid.x;
  work.gridDimY = config.grid.y;
  work.gridDimZ = config.grid.z;
  work.blockDimX = config.block.x;
  work.blockDimY = config.block.y;
  work.blockDimZ = config.block.z;
  work.sharedMemBytes = config.dynamic_shared_bytes;
  work.extra = list.extra();
  return work;
}

Result<const CudaKernel*> own_kernel(const KernelNode& node, const Context* context) {
  const auto* module = dynamic_cast<const CudaModule*>(node.module.get());
  const CudaKernel* kernel = module != nullptr && module->context() == context ? module->own(node.kernel) : nullptr;
  if (kernel != nullptr) return kernel;
  return PERGOLA_ERROR(kInvalidArgument, "its kernel is not one of a module of this device that is given with it.");
}

Result<const CudaBuffer*> own_buffer(const BufferPtr& buffer, const Context* context) {
  const auto* mine = dynamic_cast<const CudaBuffer*>(buffer.get());
  if (mine != nullptr && mine->context() == context) return mine;
  return PERGOLA_ERROR(kInvalidArgument, "its buffer is of another device than the graph.");
}

}  // namespace

// Adds one node behind those it names, whose handles are in `after`.
struct CudaGraph::AddNode {
  State& state;
  int priority = 0;  // the driver's
  std::vector<CUgraphNode> after{};
  CUgraphNode made = nullptr;

  const Driver& driver() const { return state.context->driver(); }
  Status check(CUresult result) const { return state.context->check(result, "adding a graph node"); }
  Status add_empty() { return check(driver().cuGraphAddEmptyNode(&made, state.graph, after.data(), after.size())); }

  // The node just made, of that kernel node.
  Status let_start_early(CUgraphNode earlier) {
    if (driver().cuGraphAddDependencies_v2 == nullptr)
      return PERGOLA_ERROR(kUnsupported,
                           "This driver has no edges of graphs that let kernels start early: "
                           "CUDA 12.3 or later has.");
    CUgraphEdgeData edge{};
    edge.from_port = kProgrammaticPort;
    edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    return check(driver().cuGraphAddDependencies_v2(state.graph, &earlier, &made, &edge, 1));
  }

  Status operator()(const KernelNode& node) {
    PERGOLA_ASSIGN(const CudaKernel* kernel, own_kernel(node, state.context.get()));
    ParameterList list(node.parameters);
    const CUDA_KERNEL_NODE_PARAMS work = kernel_work(*kernel, node.config, list);
    PERGOLA_TRY(check(driver().cuGraphAddKernelNode(&made, state.graph, after.data(), after.size(), &work)));
    LaunchConfig config = node.config;
    config.programmatic = false;  // an attribute of streams; here it is the edge's kind
    LaunchAttributes attributes;
    set_attributes(config, attributes);
    if (priority != 0) {
      CUlaunchAttributeValue value{};
      value.priority = priority;
      PERGOLA_TRY(check(driver().cuGraphKernelNodeSetAttribute(made, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)));
    }
    for (unsigned i = 0; i < attributes.count; ++i)
      PERGOLA_TRY(
          check(driver().cuGraphKernelNodeSetAttribute(made, attributes.values[i].id, &attributes.values[i].value)));
    return {};
  }

  Status operator()(const CopyNode& node) {
    PERGOLA_ASSIGN(const CudaBuffer* to, own_buffer(node.destination, state.context.get()));
    PERGOLA_ASSIGN(const CudaBuffer* from, own_buffer(node.source, state.context.get()));
    for (const CopyNode::Row& row : node.more_rows) {
      PERGOLA_TRY(own_buffer(row.destination, state.context.get()).status());
      PERGOLA_TRY(own_buffer(row.source, state.context.get()).status());
    }
    const std::optional<CopiesShape> shape = copies_shape(node);
    if (!shape)
      return PERGOLA_ERROR(
          kInvalidArgument,
          "its {} copies cannot be one: they lie in several memories, neither one behind the other nor at "
          "the same distances, or the first is of nothing.",
          1 + node.more_rows.size());
    if (node.size_bytes == 0) return add_empty();
    CUDA_MEMCPY3D work{};
    work.WidthInBytes = shape->line_bytes != 0 ? shape->line_bytes : node.size_bytes;
    work.Height = shape->line_bytes != 0 ? 1 : 1 + node.more_rows.size();
    work.dstPitch = shape->destination_pitch_bytes;
    work.srcPitch = shape->source_pitch_bytes;
    work.Depth = 1;
    work.srcXInBytes = node.source_offset_bytes;
    work.dstXInBytes = node.destination_offset_bytes;
    if (from->host_pointer() != nullptr) {
      work.srcMemoryType = CU_MEMORYTYPE_HOST;
      work.srcHost = from->host_pointer();
    } else {
      work.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      work.srcDevice = from->address();
    }
    if (to->host_pointer() != nullptr) {
      work.dstMemoryType = CU_MEMORYTYPE_HOST;
      work.dstHost = to->host_pointer();
    } else {
      work.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      work.dstDevice = to->address();
    }
    return check(
        driver().cuGraphAddMemcpyNode(&made, state.graph, after.data(), after.size(), &work, state.context->handle()));
  }

  Status operator()(const FillNode& node) {
    PERGOLA_ASSIGN(const CudaBuffer* to, own_buffer(node.destination, state.context.get()));
    if (node.size_bytes == 0) return add_empty();
    const CUDA_MEMSET_NODE_PARAMS work{.dst = to->address() + node.offset_bytes,
                                       .pitch = node.size_bytes,
                                       .value = node.pattern,
                                       .elementSize = node.pattern_bytes,
                                       .width = node.size_bytes / node.pattern_bytes,
                                       .height = 1};
    return check(
        driver().cuGraphAddMemsetNode(&made, state.graph, after.data(), after.size(), &work, state.context->handle()));
  }
};

CudaGraph::State::~State() {
  context->enter_quietly();
  if (executable != nullptr) context->driver().cuGraphExecDestroy(executable);
  if (graph != nullptr) context->driver().cuGraphDestroy(graph);
}

// True where the graph is instantiated and on the device, in one call, which takes less than two (64 launches on an
// H200: 214 to 269 us in place of 326 to 342). False where the driver has no such call or it failed: one is done after
// the other then, which say what is wrong.
Result<bool> CudaGraph::instantiate_on_device(State& state, unsigned long long flags) {
  const Driver& driver = state.context->driver();
  if (driver.cuGraphInstantiateWithParams == nullptr) return false;
  PERGOLA_ASSIGN(const CUstream stream, state.context->upload_stream());
  CUDA_GRAPH_INSTANTIATE_PARAMS how{.flags = flags | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                    .hUploadStream = stream,
                                    .hErrNode_out = {},
                                    .result_out = 0};
  const CUresult result = driver.cuGraphInstantiateWithParams(&state.executable, state.graph, &how);
  if (result != CUDA_SUCCESS) state.executable = nullptr;
  return result == CUDA_SUCCESS;
}

// Else the first launch does it, whose caller waits for that: where the driver cannot now, only a lost GPU is an error.
Status CudaGraph::bring_to_device(const State& state) {
  const Driver& driver = state.context->driver();
  if (driver.cuGraphUpload == nullptr) return {};
  PERGOLA_ASSIGN(const CUstream stream, state.context->upload_stream());
  const Status status =
      state.context->check(driver.cuGraphUpload(state.executable, stream), "bringing a graph of {} to the device",
                           plural(state.nodes.size(), "node"));
  return status.code() == Code::kDeviceLost ? status : Status();
}

namespace {

// Of nodes, as the driver counts: 0 is the lowest, and what launches by themselves have. None where nobody asks for any
// or the driver has only one.
Result<int> highest_priority(const Context& context, const GraphSpec& spec) {
  const auto is_asked = [](const GraphNode& node) { return node.priority != 0; };
  int least = 0, greatest = 0;
  if (context.driver().cuCtxGetStreamPriorityRange == nullptr || std::ranges::none_of(spec.nodes, is_asked)) return 0;
  PERGOLA_TRY(context.check(context.driver().cuCtxGetStreamPriorityRange(&least, &greatest),
                            "asking for the priorities of launches"));
  return std::min(greatest, 0);
}

}  // namespace

Result<std::unique_ptr<CudaGraph>> CudaGraph::create(const ContextPtr& context, GraphSpec spec) {
  PERGOLA_TRY(context->enter());
  const Driver& driver = context->driver();
  auto state = std::make_shared<State>(context, std::move(spec));
  PERGOLA_TRY(context->check(driver.cuGraphCreate(&state->graph, 0), "creating a graph"));
  PERGOLA_ASSIGN(const int highest, highest_priority(*context, state->spec));
  for (const GraphNode& node : state->spec.nodes) {
    AddNode add{*state, highest * node.priority / kMostPriority};
    for (NodeId earlier : node.after) add.after.push_back(state->nodes[earlier]);
    Status status = std::visit(add, node.work);
    if (status.ok() && node.early_after) status = add.let_start_early(state->nodes[*node.early_after]);
    if (!status.ok())
      return Error{status.code(), fmt::format("Graph node {}: {}", state->nodes.size(), status.message()), __FILE__,
                   __LINE__};
    state->nodes.push_back(add.made);
  }
  const unsigned long long flags = highest != 0 ? CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY : 0;
  PERGOLA_ASSIGN(const bool is_on_device, instantiate_on_device(*state, flags));
  if (!is_on_device) {
    PERGOLA_TRY(context->check(driver.cuGraphInstantiateWithFlags(&state->executable, state->graph, flags),
                               "instantiating a graph of " + plural(state->nodes.size(), "node")));
    PERGOLA_TRY(bring_to_device(*state));
  }
  return std::unique_ptr<CudaGraph>(new CudaGraph(std::move(state)));
}

Status CudaGraph::update_parameters(NodeId node, std::span<const std::byte> parameters) {
  PERGOLA_TRY(validate_update(state_->spec, node, parameters.size()));
  PERGOLA_TRY(state_->context->enter());
  const auto& work = std::get<KernelNode>(state_->spec.nodes[node].work);
  PERGOLA_ASSIGN(const CudaKernel* kernel, own_kernel(work, state_->context.get()));
  ParameterList list(parameters);
  const CUDA_KERNEL_NODE_PARAMS changed = kernel_work(*kernel, work.config, list);
  return state_->context->check(
      state_->context->driver().cuGraphExecKernelNodeSetParams(state_->executable, state_->nodes[node], &changed),
      fmt::format("changing the parameters of graph node {}", node));
}

Status CudaGraph::launch(Queue& queue) {
  // Nothing is derived from it, and a cast would be a fourteenth of all that is executed for the launch.
  auto* const mine = typeid(queue) == typeid(CudaQueue) ? static_cast<CudaQueue*>(&queue) : nullptr;
  if (mine == nullptr || mine->context() != state_->context.get())
    return PERGOLA_ERROR(kInvalidArgument, "The queue is of another device than the graph.");
  return mine->launch_graph(state_->executable, kept_);
}

}  // namespace pergola::device::cuda
