// Indexing: rows of indices split, what they choose from stays whole.
#include "graph/axes_families.h"

namespace magis {

// (grad [i.., d], indices [i..], num_weights, padding_idx, scale_grad_by_freq) -> [num_weights, d].
// Scaled by frequency, a row of indices counts all others.
Signature embedding_dense_backward(const Graph& graph, const Operator& op) {
  SignatureBuilder arguments(graph, op);
  const bool scaled = arguments.truth(4, "scale_grad_by_freq");
  return notation_signature(graph, op, scaled ? "I*d, I* -> .d" : "i*d, i* -> .d+i*");
}

// (weight, indices, offsets, scale_grad_by_freq, mode, ...) -> bags and what the backward needs of
// them; only the largest elements of a bag depend on the column.
Signature embedding_bag(const Graph& graph, const Operator& op) {
  constexpr int64_t kMaximum = 2;
  if (SignatureBuilder(graph, op).integer(4, "mode", 0) == kMaximum) return std::nullopt;
  return notation_signature(graph, op, ".d, .*, .*, _, _, _, .* -> .d, .*=d, .*=d, .*=d");
}

namespace {

// Axes of the dimensions but `dim` in which all of `tensors` are equally long: gather and scatter
// read no more of the longer ones than the index is long.
Dims common_axes(SignatureBuilder& signature, const std::vector<const Type*>& tensors,
                 std::size_t dim) {
  const std::size_t rank = tensors[0]->shape.size();
  Dims dims(rank);
  for (std::size_t d = 0; d < rank; ++d) {
    const auto differs = [&](const Type* type) { return type->shape[d] != tensors[0]->shape[d]; };
    if (d != dim && std::none_of(tensors.begin(), tensors.end(), differs)) {
      dims[d] = signature.add_axis(tensors[0]->shape[d]);
    }
  }
  return dims;
}

// (self, dim, index, ...): self has dimensions.
struct Indexed {
  const Type* self;
  const Type* index;
  std::size_t dim;
  bool rank_fits(const Type& other) const { return other.shape.size() == self->shape.size(); }
  bool index_is_vector() const { return index->shape.size() == 1; }
};
std::optional<Indexed> read_indexed(SignatureBuilder& signature) {
  const Type* self = signature.operand(0);
  const Type* index = signature.operand(2, "index");
  if (self == nullptr || index == nullptr || self->shape.empty()) return std::nullopt;
  return Indexed{self, index, signature.dimension(signature.integer(1, "dim"), self->shape.size())};
}

}  // namespace

// (self, dim, index) -> as long as index.
Signature gather(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto at = read_indexed(signature);
  if (!at || !at->rank_fits(*at->index)) return std::nullopt;
  Dims dims = common_axes(signature, {at->self, at->index}, at->dim);
  signature.set_operand(0, dims);
  dims[at->dim] = signature.add_axis(at->index->shape[at->dim]);
  signature.set_operand(2, dims, "index");
  signature.set_result(0, dims);
  return signature.finish();
}

// (self, dim, index, src or value). Added, the source splits along `dim` too.
Signature scatter_rows(const Graph& graph, const Operator& op, bool adds) {
  SignatureBuilder signature(graph, op);
  const auto at = read_indexed(signature);
  if (!at || !at->rank_fits(*at->index)) return std::nullopt;
  const Type* source = signature.operand(3, "src");
  const bool has_source = source != nullptr && !source->shape.empty();
  if (has_source && !at->rank_fits(*source)) return std::nullopt;
  Dims dims =
      common_axes(signature, {at->self, at->index, has_source ? source : at->index}, at->dim);
  signature.set_operand(0, dims);
  signature.set_result(0, dims);
  const int64_t rows = at->index->shape[at->dim];
  if (adds && has_source && source->shape[at->dim] == rows) {
    dims[at->dim] = signature.add_axis(rows);
    signature.combine(0, dims[at->dim], Dependence::sum);
    signature.add_once(0);
  }
  signature.set_operand(2, dims, "index");
  if (has_source) signature.set_operand(3, dims, "src");
  return signature.finish();
}

// (self, dim, index [n]) -> n long in dim.
Signature index_select(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const auto at = read_indexed(signature);
  if (!at || !at->index_is_vector()) return std::nullopt;
  Dims dims = common_axes(signature, {at->self}, at->dim);
  signature.set_operand(0, dims);
  dims[at->dim] = signature.add_axis(at->index->shape[0]);
  signature.set_operand(2, {dims[at->dim]}, "index");
  signature.set_result(0, dims);
  return signature.finish();
}

// (self, dim, index [n], source n long in dim, or a value): added, rows of the source split too.
Signature index_write(const Graph& graph, const Operator& op, bool adds) {
  SignatureBuilder signature(graph, op);
  const auto at = read_indexed(signature);
  if (!at || !at->index_is_vector()) return std::nullopt;
  Dims dims = common_axes(signature, {at->self}, at->dim);
  signature.set_operand(0, dims);
  signature.set_result(0, dims);
  if (adds) {
    dims[at->dim] = signature.add_axis(at->index->shape[0]);
    signature.set_operand(2, {dims[at->dim]}, "index");
    signature.combine(0, dims[at->dim], Dependence::sum);
    signature.add_once(0);
  }
  const Type* source = signature.operand(3, "source");
  if (source != nullptr && !source->shape.empty()) signature.set_operand(3, dims, "source");
  return signature.finish();
}

namespace {

// How self[i, :, j, ...] is read: which dimensions have an index, and the shape to which the
// indices broadcast.
struct Indexing {
  std::vector<const Type*> by_dimension;  // null: all of it
  Shape rows;
  std::size_t rows_at = 0;  // where they stand in the result
};

// Masks pick as many elements as they happen to hold: no indexing by them.
std::optional<Indexing> read_indexing(const Graph& graph, const Operator& op, std::size_t rank) {
  const auto* list = op.args.size() < 2 ? nullptr : std::get_if<ArgList>(&op.args[1].value);
  if (list == nullptr || list->size() > rank) return std::nullopt;
  Indexing indexing;
  indexing.by_dimension.resize(rank);
  std::vector<std::size_t> indexed;
  for (std::size_t d = 0; d < list->size(); ++d) {
    const auto* id = std::get_if<ValueId>(&(*list)[d].value);
    if (id == nullptr) continue;
    const Type& type = graph.value(*id).type;
    if (!type.defined || (type.dtype != DType::i64 && type.dtype != DType::i32)) {
      return std::nullopt;
    }
    indexing.by_dimension[d] = &type;
    indexed.push_back(d);
    Shape& rows = indexing.rows;
    const std::size_t longer = std::max(rows.size(), type.shape.size());
    rows.insert(rows.begin(), longer - rows.size(), 1);
    for (std::size_t i = 0; i < type.shape.size(); ++i) {
      int64_t& length = rows[longer - type.shape.size() + i];
      if (length == 1) length = type.shape[i];
    }
  }
  if (indexed.empty()) return std::nullopt;
  // Indices side by side leave their rows in place; else the rows come first.
  const bool side_by_side = indexed.back() - indexed.front() + 1 == indexed.size();
  indexing.rows_at = side_by_side ? indexed.front() : 0;
  return indexing;
}

// Axes of self's dimensions that have no index; of the rows, if they split; and of self indexed.
struct IndexingAxes {
  Dims self, rows, indexed;
};
IndexingAxes add_indexing_axes(SignatureBuilder& signature, const Shape& self,
                               const Indexing& indexing, bool rows_split) {
  IndexingAxes axes;
  for (std::size_t d = 0; d < self.size(); ++d) {
    const bool indexed = indexing.by_dimension[d] != nullptr;
    axes.self.push_back(indexed ? DimAxis{} : signature.add_axis(self[d]));
    if (!indexed) axes.indexed.push_back(axes.self.back());
  }
  axes.rows = rows_split ? signature.add_axes(indexing.rows) : Dims(indexing.rows.size());
  axes.indexed.insert(axes.indexed.begin() + static_cast<std::ptrdiff_t>(indexing.rows_at),
                      axes.rows.begin(), axes.rows.end());
  return axes;
}

void set_index_operands(SignatureBuilder& signature, const Indexing& indexing, const Dims& rows) {
  for (std::size_t d = 0; d < indexing.by_dimension.size(); ++d) {
    const Type* type = indexing.by_dimension[d];
    if (type != nullptr) signature.set_operand_in_list(1, d, signature.broadcast(*type, rows));
  }
}

}  // namespace

Signature index_tensor(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* self = signature.operand(0);
  if (self == nullptr) return std::nullopt;
  const auto indexing = read_indexing(graph, op, self->shape.size());
  if (!indexing) return std::nullopt;
  const IndexingAxes axes = add_indexing_axes(signature, self->shape, *indexing, true);
  signature.set_operand(0, axes.self);
  set_index_operands(signature, *indexing, axes.rows);
  signature.set_result(0, axes.indexed);
  return signature.finish();
}

// (self, indices, values, accumulate): added, the rows split too.
Signature index_put(const Graph& graph, const Operator& op) {
  SignatureBuilder signature(graph, op);
  const Type* self = signature.operand(0);
  if (self == nullptr) return std::nullopt;
  const auto indexing = read_indexing(graph, op, self->shape.size());
  if (!indexing) return std::nullopt;
  const bool adds = signature.truth(3, "accumulate");
  const IndexingAxes axes = add_indexing_axes(signature, self->shape, *indexing, adds);
  signature.set_operand(0, axes.self);
  set_index_operands(signature, *indexing, axes.rows);
  signature.broadcast_operand(2, axes.indexed, "values");
  signature.set_result(0, axes.self);
  if (adds) {
    signature.combine(0, axes.rows, Dependence::sum);
    signature.add_once(0);
  }
  return signature.finish();
}

}  // namespace magis
