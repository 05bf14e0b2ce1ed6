// HITS: hubs and authorities of a graph. Each of ten rounds, of two halves that cross:
//
//   hubs ───────── transposed product ─ sum ─ divide ─▶ authorities     each divide also waits for the other product,
//   authorities ── product ──────────── sum ─ divide ─▶ hubs            which reads what it overwrites
#include <filesystem>

#include "graph.h"
#include "harness.h"

namespace dag {
namespace {

constexpr int kRounds = 10, kDegree = 16;

// What a vertex takes on the device: its edges twice, two rows' beginnings, six numbers.
template <typename Index>
constexpr std::size_t kBytesPerVertex = std::size_t{kDegree} * 2 * 8 + 2 * sizeof(Index) + 6 * 4;

template <typename T, typename From>
std::span<T> copied(HostMemory& memory, const std::vector<From>& values) {
  const std::span<T> result = memory.take<T>(values.size());
  std::copy(values.begin(), values.end(), result.begin());
  return result;
}

// A matrix in the host's memory, as inputs. Its copies lie along the diagonal of the device's: those of a graph that
// is so many graphs.
template <typename Index>
struct Matrix {
  Matrix(HostMemory& memory, const Graph& graph, std::size_t copies)
      : row_begin(copied<Index>(memory, graph.row_begin)),
        column(copied<int>(memory, graph.column)),
        value(memory.take<float>(column.size())),
        of_rows{.copies = copies, .extra = 1, .shift = static_cast<long long>(column.size())},
        of_columns{.copies = copies, .shift = graph.vertices()},
        of_values{.copies = copies} {
    std::fill(value.begin(), value.end(), 1.f);
    if (!of_rows.is_tiled()) of_rows = {};
  }
  // The end of the last row is where the first of a copy more would begin.
  std::span<Index> rows() const { return of_rows.is_tiled() ? row_begin.first(row_begin.size() - 1) : row_begin; }

  std::span<Index> row_begin;
  std::span<int> column;
  std::span<float> value;
  Tiling of_rows, of_columns, of_values;
};

// Index: of edges, as the kernels have it.
template <typename Index>
struct Hits : Problem {
  Hits(Setup& setup, const Graph& graph)
      : tiling{.copies = setup.tiles},
        of_start{.copies = setup.tiles, .shift = (1LL << 23) / static_cast<long long>(setup.tiles)},
        tile(graph.vertices()),
        n(static_cast<Index>(tiling.on_device(tile))),
        warps(covering(std::size_t{32} * n, setup.block)),
        each(covering(n, setup.block)),
        reduce(reducing(n, setup.block)),
        forward(setup.memory, graph, tiling.copies),
        backward(setup.memory, transposed(graph), tiling.copies),
        start(setup.memory.take<float>(tile)),
        hubs(setup.memory.take<float>(tile)),
        authorities(setup.memory.take<float>(tile)) {
    name = "HITS";
    std::fill(start.begin(), start.end(), 1.f);
  }

  Plan plan() const override {
    Plan plan;
    struct OnDevice {
      ArrayId row_begin, column, value;
    };
    const auto matrix = [&](const Matrix<Index>& m, const std::string& of) {
      return OnDevice{plan.input("rows" + of, m.rows(), m.of_rows), plan.input("columns" + of, m.column, m.of_columns),
                      plan.input("values" + of, m.value, m.of_values)};
    };
    const OnDevice a = matrix(forward, ""), t = matrix(backward, " transposed");
    const ArrayId first = plan.input("start", start, of_start), hub = plan.output("hubs", hubs, tiling.copies);
    const ArrayId authority = plan.output("authorities", authorities, tiling.copies);
    const ArrayId new_hub = plan.array<float>("new hubs", n), new_authority = plan.array<float>("new authorities", n);
    const ArrayId hub_sum = plan.array<double>("sum of hubs", 1),
                  authority_sum = plan.array<double>("sum of authorities", 1);
    const auto [hub_partial, hub_counter] = reduction_scratch(plan, "hubs", reduce);
    const auto [authority_partial, authority_counter] = reduction_scratch(plan, "authorities", reduce);

    // Stream 0 has the authorities, stream 1 the hubs.
    const StepId in_first = plan.copy_in(first, 0);
    const auto copy = [&](const OnDevice& m, int stream) {
      return std::vector<StepId>{plan.copy_in(m.row_begin, stream), plan.copy_in(m.column, stream),
                                 plan.copy_in(m.value, stream)};
    };
    std::vector<StepId> before_t = copy(t, 0), before_a = copy(a, 1);
    before_t.push_back(in_first), before_a.push_back(in_first);
    ArrayId from_hub = first, from_authority = first;
    StepId divide_a{}, divide_h{};
    for (int round = 0; round < kRounds; ++round) {
      const StepId product_a = plan.kernel("sparse_product", warps,
                                           {t.row_begin, t.column, t.value, from_hub, new_authority, n}, 0, before_t);
      const StepId product_h = plan.kernel("sparse_product", warps,
                                           {a.row_begin, a.column, a.value, from_authority, new_hub, n}, 1, before_a);
      std::vector<StepId> before_sum_a{product_a}, before_sum_h{product_h};
      std::vector<StepId> before_divide_a{product_a}, before_divide_h{product_h};
      if (round != 0) {  // what the round before has written and read
        before_sum_a.push_back(divide_a), before_sum_h.push_back(divide_h);
        before_divide_a.push_back(product_h), before_divide_h.push_back(product_a);
      }
      const StepId sum_a = plan.kernel(
          "sum", reduce, {new_authority, n, authority_partial, authority_counter, authority_sum}, 0, before_sum_a);
      const StepId sum_h = plan.kernel("sum", reduce, {new_hub, n, hub_partial, hub_counter, hub_sum}, 1, before_sum_h);
      before_divide_a.push_back(sum_a), before_divide_h.push_back(sum_h);
      divide_a = plan.kernel("divide", each, {new_authority, authority, authority_sum, n}, 0, before_divide_a);
      divide_h = plan.kernel("divide", each, {new_hub, hub, hub_sum, n}, 1, before_divide_h);
      from_hub = hub, from_authority = authority;
      before_t = {divide_h, divide_a}, before_a = {divide_a, divide_h};
    }
    plan.copy_out(authority, 0, {divide_a});
    plan.copy_out(hub, 1, {divide_h});
    return plan;
  }

  std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) override;

  // Of one copy by itself. All that follows from the start is linear, and normalised by the sum over all copies: so
  // each has these values times its share in the start.
  void reference() override {
    expected_hubs.assign(tile, 1);
    expected_authorities.assign(tile, 1);
    for (int round = 0; round < kRounds; ++round) {
      const auto new_authorities = normalised_product(backward, expected_hubs);
      expected_hubs = normalised_product(forward, expected_authorities);
      expected_authorities = new_authorities;
    }
  }
  bool is_right(std::size_t piece) const override {
    double all = 0;
    for (std::size_t copy = 0; copy < tiling.copies; ++copy) all += start_of(copy);
    const double share = start_of(piece) / all;
    const auto is_close = [&](std::span<const float> got, std::vector<double> expected) {
      for (double& v : expected) v *= share;
      return all_close<float>(got, expected, 1e-4);
    };
    return is_close(hubs, expected_hubs) && is_close(authorities, expected_authorities);
  }
  // Copies begin with different values, so that the results show where one takes another's: as its shift is added to
  // their bits, 1, 1 + 1 / copies and so on up to 2, or a little less.
  double start_of(std::size_t copy) const { return 1 + std::ldexp(static_cast<double>(copy * of_start.shift), -23); }
  std::vector<double> normalised_product(const Matrix<Index>& matrix, const std::vector<double>& x) const {
    std::vector<double> result(tile);
    parallel_for(tile, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row)
        for (Index k = matrix.row_begin[row]; k < matrix.row_begin[row + 1]; ++k) result[row] += x[matrix.column[k]];
    });
    double sum = 0;
    for (const double v : result) sum += v;
    for (double& v : result) v /= sum;
    return result;
  }

  const Tiling tiling, of_start;
  const int tile;  // vertices of a copy
  const Index n;
  const pergola::Grid warps, each, reduce;
  const Matrix<Index> forward, backward;
  const std::span<float> start, hubs, authorities;
  std::vector<double> expected_hubs, expected_authorities;
};

template <typename Index>
class HitsSequential : public Sequential {
 public:
  HitsSequential(const pergola::Session& session, const pergola::Module& module, const Hits<Index>& problem)
      : p_(problem),
        product_(module.kernel("sparse_product")),
        sum_(module.kernel("sum")),
        divide_(module.kernel("divide")),
        a_(session, p_.forward),
        t_(session, p_.backward),
        start_(session.array<float>(p_.n)),
        hub_(session.array<float>(p_.n)),
        authority_(session.array<float>(p_.n)),
        new_hub_(session.array<float>(p_.n)),
        new_authority_(session.array<float>(p_.n)),
        hub_sum_(session.array<double>(1)),
        authority_sum_(session.array<double>(1)),
        hub_partial_(session.array<double>(p_.reduce.blocks.x)),
        authority_partial_(session.array<double>(p_.reduce.blocks.x)),
        hub_counter_(session.array<unsigned>(1, 0u)),
        authority_counter_(session.array<unsigned>(1, 0u)) {}

  void write() override {
    send(start_, p_.start, p_.of_start);
    send_matrix(t_, p_.backward);
    send_matrix(a_, p_.forward);
  }
  void launch() override {
    const Index n = p_.n;
    for (int round = 0; round < kRounds; ++round) {
      const auto& from_hub = round == 0 ? start_ : hub_;
      const auto& from_authority = round == 0 ? start_ : authority_;
      product_(p_.warps, t_.row_begin, t_.column, t_.value, from_hub, new_authority_, n);
      product_(p_.warps, a_.row_begin, a_.column, a_.value, from_authority, new_hub_, n);
      sum_(p_.reduce, new_authority_, n, authority_partial_, authority_counter_, authority_sum_);
      sum_(p_.reduce, new_hub_, n, hub_partial_, hub_counter_, hub_sum_);
      divide_(p_.each, new_authority_, authority_, authority_sum_, n);
      divide_(p_.each, new_hub_, hub_, hub_sum_, n);
    }
  }
  void read() override {
    announce(hub_);
    receive(authority_, p_.authorities);
    receive(hub_, p_.hubs);
  }
  std::vector<pergola_array> outputs() const override { return {hub_.handle(), authority_.handle()}; }

 private:
  struct OnDevice {
    OnDevice(const pergola::Session& session, const Matrix<Index>& matrix)
        : row_begin(session.array<Index>(matrix.of_rows.on_device(matrix.rows().size()))),
          column(session.array<int>(matrix.of_columns.on_device(matrix.column.size()))),
          value(session.array<float>(matrix.of_values.on_device(matrix.value.size()))) {}
    pergola::Array<Index> row_begin;
    pergola::Array<int> column;
    pergola::Array<float> value;
  };
  void send_matrix(OnDevice& to, const Matrix<Index>& matrix) {
    send(to.row_begin, matrix.rows(), matrix.of_rows);
    send(to.column, matrix.column, matrix.of_columns);
    send(to.value, matrix.value, matrix.of_values);
  }

  const Hits<Index>& p_;
  const pergola::Kernel product_, sum_, divide_;
  OnDevice a_, t_;
  pergola::Array<float> start_, hub_, authority_, new_hub_, new_authority_;
  pergola::Array<double> hub_sum_, authority_sum_, hub_partial_, authority_partial_;
  pergola::Array<unsigned> hub_counter_, authority_counter_;
};

template <typename Index>
std::unique_ptr<Sequential> Hits<Index>::sequential(const pergola::Session& session, const pergola::Module& module) {
  return std::make_unique<HitsSequential<Index>>(session, module, *this);
}

template <typename Index>
std::unique_ptr<Problem> make_with(Setup& setup) {
  const int vertices = static_cast<int>(setup.bytes / kBytesPerVertex<Index> / setup.tiles);
  const bool generated = setup.matrix.empty();
  if (generated) check_tile("HITS", setup, vertices, 2);
  if (generated)
    setup.notes = "HITS runs on a generated R-MAT graph; --matrix names a Matrix Market file to run on instead.";
  const Graph graph =
      generated ? generate_rmat(vertices, std::size_t{kDegree} * vertices) : read_matrix_market(setup.matrix);
  auto problem = std::make_unique<Hits<Index>>(setup, graph);
  problem->params["graph"] = generated ? "R-MAT" : std::filesystem::path(setup.matrix).stem().string();
  if (!generated) problem->params["bytes"] = problem->plan().device_bytes();
  return problem;
}

}  // namespace

std::unique_ptr<Problem> make_hits(Setup& setup) {
  return setup.tiles > 1 ? make_with<long long>(setup) : make_with<int>(setup);
}

}  // namespace dag
