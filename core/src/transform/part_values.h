// The values of a graph as the bodies of its regions see them: at part size, sliced, viewed.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "magis/graph/axes.h"
#include "magis/graph/builder.h"
#include "transform/region_tree.h"

namespace magis {

// A value of the new graph, and which of its dimensions follow a part.
struct PartValue {
  ValueId id;
  std::vector<std::optional<PartLength>> dims;
};

// What the source's values have become. Tensors are entered by whoever makes them, for the region
// in whose body they are there; views are rebuilt where they are read.
class PartValues {
 public:
  PartValues(const Graph& source, const RegionTree& tree, GraphBuilder& builder)
      : source_(source), tree_(tree), builder_(builder), loops_(tree.size()) {}

  void enter_loop(RegionIndex region) {
    loops_[static_cast<std::size_t>(region)] = builder_.open_loop();
  }
  LoopId loop(RegionIndex region) const { return loops_[static_cast<std::size_t>(region)]; }

  // `coefficient` times the units of `region`.
  PartLength length(int64_t coefficient, RegionIndex region) const {
    return builder_.part_length(coefficient, {loop(region)});
  }
  // How long a dimension of `op` is that belongs to `dim`, for an operator that stands in `region`;
  // nothing if it follows no part.
  std::optional<PartLength> length_of(OpId op, const DimAxis& dim, RegionIndex region) const;

  // The source's tensor `value` (an input or a result), as it is in the body of `home`.
  void set(ValueId value, RegionIndex home, PartValue part) {
    tensors_[{value, home}] = std::move(part);
  }
  const PartValue& tensor(ValueId value, RegionIndex home) const;
  // What `op`, which stands in `here`, reads as `value`, whose dimensions belong to `dims`.
  ValueId read(ValueId value, OpId op, const std::vector<DimAxis>& dims, RegionIndex here);
  // The same as contiguous memory: a copy if the part is not.
  ValueId read_contiguous(ValueId value, OpId op, const std::vector<DimAxis>& dims,
                          RegionIndex here);
  // What is read outside all regions.
  ValueId read_outside(ValueId value) { return in_body(value, kOutside, kOutside).id; }

  // A name that is not taken: `name`, or `name` with something appended.
  std::string unused(const std::string& name) const;
  // Dense, of `shape`, with strides in the order of `like`'s.
  static Type in_stride_order(const Type& like, Shape shape);
  // The same; throws NoFission if `like` is not dense.
  static Type dense_type(const Type& like, Shape shape, const std::string& name);
  // Of what an operator makes like `like`, memory format preserved: its strides if it is dense,
  // else dense ones in their order, where PyTorch has rules of its own for strides of 0.
  static Type preserved(const Type& like);
  // The shape of `shape` with the dimensions that follow a part at full parts' length.
  static Shape part_shape(Shape shape, const std::vector<std::optional<PartLength>>& dims);

 private:
  PartValue in_body(ValueId value, RegionIndex home, RegionIndex here);
  PartValue rebuilt_view(ValueId value, RegionIndex home, RegionIndex here);
  ValueId contiguous_copy(ValueId base, RegionIndex here);
  PartValue slice(const PartValue& whole, std::size_t dim, int64_t coefficient, RegionIndex region);

  const Graph& source_;
  const RegionTree& tree_;
  GraphBuilder& builder_;
  std::vector<LoopId> loops_;
  std::map<std::pair<ValueId, RegionIndex>, PartValue> tensors_;
  std::map<std::pair<ValueId, RegionIndex>, PartValue> views_;  // by where they are read
  std::map<std::tuple<ValueId, std::size_t, int64_t, LoopId>, PartValue> slices_;
  std::map<std::pair<ValueId, RegionIndex>, ValueId> copies_;  // by where they are read
};

}  // namespace magis
