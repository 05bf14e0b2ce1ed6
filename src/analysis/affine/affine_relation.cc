#include "src/analysis/affine/affine_relation.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "src/analysis/affine/affine_text.h"

#ifdef PERGOLA_HAS_ISL
#include <isl/ctx.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/val.h>
#endif

namespace pergola::analysis {

#ifndef PERGOLA_HAS_ISL

bool has_affine_sets() {
  return false;
}

Result<AffineRelation> affine_dependencies(const AffineLaunch& parent, const AffineLaunch& child,
                                           const DependencyOptions& options, const AffineLimits& limits) {
  static_cast<void>(limits);
  PERGOLA_ASSIGN(const LaunchFootprint p, parent.kernel->at(*parent.values));
  PERGOLA_ASSIGN(const LaunchFootprint c, child.kernel->at(*child.values));
  return AffineRelation{block_dependencies(p, c, options), "this build has no libisl (libisl-dev)"};
}

std::optional<std::size_t> find_excluded(const AffineLaunch& launch, std::span<const AffineByte> bytes,
                                         const AffineLimits& limits) {
  static_cast<void>(launch), static_cast<void>(bytes), static_cast<void>(limits);
  return std::nullopt;
}

#else

namespace {

template <auto kFree>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    static_cast<void>(kFree(object));
  }
};
using Map = std::unique_ptr<isl_map, Freed<isl_map_free> >;
using Set = std::unique_ptr<isl_set, Freed<isl_set_free> >;

// The thread's isl_ctx, with so many operations from here on. Errors are answers that are null.
class Context {
 public:
  explicit Context(std::uint64_t operations) : ctx_(of_thread()), operations_(operations) {
    isl_ctx_reset_operations(ctx_);
    isl_ctx_reset_error(ctx_);
    isl_ctx_set_max_operations(ctx_, operations);
  }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { isl_ctx_set_max_operations(ctx_, 0); }

  isl_ctx* get() const { return ctx_; }
  std::string reason() const {
    if (isl_ctx_last_error(ctx_) == isl_error_quota)
      return fmt::format("libisl would take more than {} operations", operations_);
    const char* const message = isl_ctx_last_error_msg(ctx_);
    return fmt::format("libisl says: {}", message == nullptr ? "nothing" : message);
  }

 private:
  static isl_ctx* of_thread() {
    static thread_local const std::unique_ptr<isl_ctx, Freed<isl_ctx_free> > ctx(isl_ctx_alloc());
    isl_options_set_on_error(ctx.get(), ISL_ON_ERROR_CONTINUE);
    return ctx.get();
  }
  isl_ctx* ctx_;
  std::uint64_t operations_;
};

// Where the accesses of a launch begin, made when first asked for.
class AffineAccesses {
 public:
  explicit AffineAccesses(const SymbolicLaunch& launch) : launch_(launch), maps_(launch.accesses.size()) {}

  isl_map* map(Context& context, std::size_t i) {
    if (maps_[i] == nullptr) {
      const auto text = affine_text(launch_, launch_.accesses[i]);
      if (text) maps_[i].reset(isl_map_read_from_str(context.get(), text->c_str()));
      if (!text) reason_ = fmt::format("an access has more than {} terms", kMaxAffineTerms);
    }
    return maps_[i].get();
  }
  static std::int64_t width(const SymbolicAccess& access) {
    return static_cast<std::int64_t>(access.whole_reason.empty() ? access.width : access.allocation_bytes);
  }
  const std::string& reason() const { return reason_; }

 private:
  const SymbolicLaunch& launch_;
  std::vector<Map> maps_;
  std::string reason_;
};

class Composer {
 public:
  Composer(const SymbolicLaunch& parent, const SymbolicLaunch& child, const DependencyOptions& options,
           const AffineLimits& limits)
      : parent_(parent),
        child_(child),
        options_(options),
        limits_(limits),
        context_(limits.operations),
        of_parent_(parent),
        of_child_(child) {}

  // "" or why there is none.
  std::string run(BlockRelation& relation) {
    std::vector<std::vector<std::uint32_t> > parents(child_.closed.blocks());
    for (std::size_t i = 0; i < parent_.accesses.size(); ++i) {
      for (std::size_t j = 0; j < child_.accesses.size(); ++j) {
        const SymbolicAccess &p = parent_.accesses[i], &c = child_.accesses[j];
        const bool raw = p.writes && c.reads, war = !options_.raw_only && p.reads && c.writes,
                   waw = !options_.raw_only && p.writes && c.writes;
        if (p.allocation != c.allocation || !(raw || war || waw)) continue;
        const std::size_t before = pairs_;
        if (std::string reason = add(i, j, parents); !reason.empty()) return reason;
        if (pairs_ == before) continue;
        relation.raw |= raw;
        relation.war |= war;
        relation.waw |= waw;
      }
    }
    for (std::vector<std::uint32_t>& list : parents) {
      std::ranges::sort(list);
      list.erase(std::ranges::unique(list).begin(), list.end());
    }
    set_parents(parents, options_, relation);
    return "";
  }

 private:
  // The pairs of blocks of two accesses.
  std::string add(std::size_t i, std::size_t j, std::vector<std::vector<std::uint32_t> >& parents) {
    isl_map *p = of_parent_.map(context_, i), *c = of_child_.map(context_, j);
    if (p == nullptr || c == nullptr) {
      const std::string& reason = p == nullptr ? of_parent_.reason() : of_child_.reason();
      return reason.empty() ? context_.reason() : reason;
    }
    const std::string meets =
        fmt::format("{{ [f] -> [g] : f - {} < g < f + {} }}", AffineAccesses::width(parent_.accesses[i]),
                    AffineAccesses::width(child_.accesses[j]));
    isl_map* related = isl_map_apply_range(isl_map_copy(c), isl_map_read_from_str(context_.get(), meets.c_str()));
    related = isl_map_apply_range(related, isl_map_reverse(isl_map_copy(p)));
    const Set pairs(isl_map_wrap(isl_map_coalesce(related)));
    Listing listing{this, &parents, false};
    if (pairs == nullptr || isl_set_foreach_point(pairs.get(), &list_pair, &listing) != isl_stat_ok) {
      if (listing.is_too_long) return fmt::format("there are more than {} pairs of blocks", limits_.pairs);
      return context_.reason();
    }
    return "";
  }

  struct Listing {
    Composer* composer;
    std::vector<std::vector<std::uint32_t> >* parents;
    bool is_too_long;
  };
  static isl_stat list_pair(isl_point* point, void* user) {
    auto& listing = *static_cast<Listing*>(user);
    std::uint32_t at[6];
    for (int i = 0; i < 6; ++i) {
      isl_val* value = isl_point_get_coordinate_val(point, isl_dim_set, i);
      at[i] = static_cast<std::uint32_t>(isl_val_get_num_si(value));
      isl_val_free(value);
    }
    isl_point_free(point);
    const auto& child = listing.composer->child_.closed.grid;
    const auto& parent = listing.composer->parent_.closed.grid;
    (*listing.parents)[at[0] + child[0] * (at[1] + child[1] * at[2])].push_back(
        at[3] + parent[0] * (at[4] + parent[1] * at[5]));
    listing.is_too_long = ++listing.composer->pairs_ > listing.composer->limits_.pairs;
    return listing.is_too_long ? isl_stat_error : isl_stat_ok;
  }

  const SymbolicLaunch &parent_, &child_;
  const DependencyOptions& options_;
  const AffineLimits& limits_;
  Context context_;
  AffineAccesses of_parent_, of_child_;
  std::size_t pairs_ = 0;
};

bool may_access(Context& context, AffineAccesses& accesses, const SymbolicLaunch& launch, const AffineByte& byte) {
  const GridIndex block = index_of(byte.block, launch.closed.grid);
  for (std::size_t i = 0; i < launch.accesses.size(); ++i) {
    const SymbolicAccess& access = launch.accesses[i];
    if (access.allocation != byte.allocation || !(byte.is_write ? access.writes : access.reads)) continue;
    isl_map* map = accesses.map(context, i);
    if (map == nullptr) return true;
    const std::string one = fmt::format("{{ [{}, {}, {}] -> [f] : f <= {} < f + {} }}", block.at[0], block.at[1],
                                        block.at[2], byte.byte, AffineAccesses::width(access));
    const Map met(isl_map_intersect(isl_map_copy(map), isl_map_read_from_str(context.get(), one.c_str())));
    if (met == nullptr || isl_map_is_empty(met.get()) != isl_bool_true) return true;
  }
  return false;
}

}  // namespace

bool has_affine_sets() {
  return true;
}

Result<AffineRelation> affine_dependencies(const AffineLaunch& parent, const AffineLaunch& child,
                                           const DependencyOptions& options, const AffineLimits& limits) {
  PERGOLA_ASSIGN(const SymbolicLaunch p, parent.kernel->symbolic_at(*parent.values));
  PERGOLA_ASSIGN(const SymbolicLaunch c, child.kernel->symbolic_at(*child.values));
  AffineRelation result;
  result.relation.parents = p.closed.blocks();
  result.relation.children = c.closed.blocks();
  result.reason = p.reason.empty() ? c.reason : p.reason;
  if (result.reason.empty()) result.reason = Composer(p, c, options, limits).run(result.relation);
  if (!result.reason.empty()) result.relation = block_dependencies(p.closed, c.closed, options);
  return result;
}

std::optional<std::size_t> find_excluded(const AffineLaunch& launch, std::span<const AffineByte> bytes,
                                         const AffineLimits& limits) {
  const Result<SymbolicLaunch> symbolic = launch.kernel->symbolic_at(*launch.values);
  if (!symbolic.ok() || !symbolic->reason.empty()) return std::nullopt;
  Context context(limits.operations);
  AffineAccesses accesses(*symbolic);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (!may_access(context, accesses, *symbolic, bytes[i])) return i;
  }
  return std::nullopt;
}

#endif

}  // namespace pergola::analysis
