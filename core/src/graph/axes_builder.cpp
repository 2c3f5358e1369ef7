#include "graph/axes_builder.h"

#include <algorithm>

#include "magis/graph/builder.h"

namespace magis {

SignatureBuilder::SignatureBuilder(const Graph& graph, const Operator& op)
    : graph_(graph), op_(op) {
  for (std::size_t i = 0; i < op.args.size(); ++i) {
    collect(op.args[i], static_cast<int>(i), {}, -1);
  }
  for (const auto& [keyword, arg] : op.kwargs) collect(arg, -1, keyword, -1);
  for (const Place& place : places_) {
    const Type& type = graph.value(place.value).type;
    signature_.operands.emplace_back(type.defined ? type.shape.size() : 0);
  }
  signature_.added_once.resize(places_.size());
  signature_.contiguous.resize(places_.size());
  for (ValueId value : op.results) {
    const Type& type = graph.value(value).type;
    signature_.results.emplace_back(type.defined ? type.shape.size() : 0);
  }
  signature_.dependence.resize(op.results.size());
}

// The order of for_each_value.
void SignatureBuilder::collect(const Arg& arg, int position, const std::string& keyword, int item) {
  if (const auto* id = std::get_if<ValueId>(&arg.value)) {
    places_.push_back({position, keyword, item, *id});
  } else if (const auto* list = std::get_if<ArgList>(&arg.value)) {
    int number = 0;
    for (const Arg& member : *list) collect(member, position, keyword, number++);
  }
}

bool SignatureBuilder::is_at(const Place& place, std::size_t position,
                             std::string_view keyword) const {
  if (place.position >= 0) return static_cast<std::size_t>(place.position) == position;
  return !keyword.empty() && place.keyword == keyword;
}

const Arg* SignatureBuilder::argument(std::size_t position, std::string_view keyword) const {
  return find_argument(op_, position, keyword);
}

const Type* SignatureBuilder::operand(std::size_t position, std::string_view keyword) const {
  const Arg* arg = argument(position, keyword);
  const auto* id = arg == nullptr ? nullptr : std::get_if<ValueId>(&arg->value);
  return id == nullptr || !graph_.value(*id).type.defined ? nullptr : &graph_.value(*id).type;
}

const Type* SignatureBuilder::result(std::size_t index) const {
  if (index >= op_.results.size()) return nullptr;
  const Type& type = graph_.value(op_.results[index]).type;
  return type.defined ? &type : nullptr;
}

bool SignatureBuilder::absent(std::size_t position, std::string_view keyword) const {
  const Arg* arg = argument(position, keyword);
  return arg == nullptr || std::holds_alternative<None>(arg->value);
}

int64_t SignatureBuilder::integer(std::size_t position, std::string_view keyword,
                                  int64_t otherwise) {
  if (absent(position, keyword)) return otherwise;
  const std::optional<int64_t> value = integer_value(*argument(position, keyword));
  if (!value) fail();
  return value.value_or(otherwise);
}

std::vector<int64_t> SignatureBuilder::integers(std::size_t position, std::string_view keyword) {
  std::vector<int64_t> numbers;
  if (absent(position, keyword)) return numbers;
  const Arg& arg = *argument(position, keyword);
  if (const std::optional<int64_t> single = integer_value(arg)) return {*single};
  const auto* list = std::get_if<ArgList>(&arg.value);
  if (list == nullptr) {
    fail();
    return numbers;
  }
  for (const Arg& item : *list) {
    const std::optional<int64_t> number = integer_value(item);
    if (!number) fail();
    numbers.push_back(number.value_or(0));
  }
  return numbers;
}

bool SignatureBuilder::truth(std::size_t position, std::string_view keyword, bool otherwise) {
  if (absent(position, keyword)) return otherwise;
  const bool* value = std::get_if<bool>(&argument(position, keyword)->value);
  if (value == nullptr) fail();
  return value == nullptr ? otherwise : *value;
}

double SignatureBuilder::number(std::size_t position, std::string_view keyword, double otherwise) {
  if (absent(position, keyword)) return otherwise;
  const Arg& arg = *argument(position, keyword);
  if (const double* value = std::get_if<double>(&arg.value)) return *value;
  if (const int64_t* value = std::get_if<int64_t>(&arg.value)) return static_cast<double>(*value);
  fail();
  return otherwise;
}

std::size_t SignatureBuilder::dimension(int64_t number, std::size_t rank) {
  const auto count = static_cast<int64_t>(rank);
  if (number < -count || number >= count) {
    // A scalar's only dimension is named, but has no row.
    if (rank != 0 || number < -1 || number > 0) fail();
    return 0;
  }
  return static_cast<std::size_t>(number < 0 ? number + count : number);
}

DimAxis SignatureBuilder::add_axis(int64_t length, bool splittable) {
  signature_.axes.push_back({length, splittable});
  return {static_cast<int>(signature_.axes.size()) - 1, 1};
}

Dims SignatureBuilder::add_axes(const Shape& shape, bool splittable) {
  Dims dims;
  for (int64_t length : shape) dims.push_back(add_axis(length, splittable));
  return dims;
}

int64_t SignatureBuilder::axis_length(DimAxis dim) const {
  return dim.axis < 0 ? 0 : signature_.axes[static_cast<std::size_t>(dim.axis)].length;
}

void SignatureBuilder::keep_whole(DimAxis dim) {
  if (dim.axis >= 0) signature_.axes[static_cast<std::size_t>(dim.axis)].splittable = false;
}

Dims SignatureBuilder::broadcast(const Type& type, const Dims& dims) {
  const std::size_t rank = type.shape.size();
  if (rank > dims.size()) {
    fail();
    return Dims(rank);
  }
  Dims aligned(dims.end() - static_cast<std::ptrdiff_t>(rank), dims.end());
  for (std::size_t d = 0; d < rank; ++d) {
    if (type.shape[d] == 1 && axis_length(aligned[d]) * aligned[d].step != 1) aligned[d] = {};
  }
  return aligned;
}

void SignatureBuilder::set_operand(std::size_t position, const Dims& dims,
                                   std::string_view keyword) {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (!is_at(places_[row], position, keyword)) continue;
    if (graph_.value(places_[row].value).type.defined) signature_.operands[row] = dims;
  }
}

void SignatureBuilder::set_operand_in_list(std::size_t position, std::size_t item,
                                           const Dims& dims) {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    const Place& place = places_[row];
    if (is_at(place, position, {}) && place.item == static_cast<int>(item)) {
      signature_.operands[row] = dims;
    }
  }
}

void SignatureBuilder::broadcast_operand(std::size_t position, const Dims& dims,
                                         std::string_view keyword) {
  if (const Type* type = operand(position, keyword)) {
    set_operand(position, broadcast(*type, dims), keyword);
  }
}

void SignatureBuilder::broadcast_every_operand(const Dims& dims) {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    const Type& type = graph_.value(places_[row].value).type;
    if (type.defined) signature_.operands[row] = broadcast(type, dims);
  }
}

void SignatureBuilder::set_result(std::size_t index, const Dims& dims) {
  if (result(index) != nullptr) signature_.results[index] = dims;
}

void SignatureBuilder::combine(std::size_t index, DimAxis dim, Dependence dependence) {
  if (result(index) == nullptr || dim.axis < 0) return;
  std::vector<Dependence>& row = signature_.dependence[index];
  row.resize(std::max(row.size(), static_cast<std::size_t>(dim.axis) + 1), Dependence::once);
  row[static_cast<std::size_t>(dim.axis)] = dependence;
}

void SignatureBuilder::combine(std::size_t index, const Dims& dims, Dependence dependence) {
  for (DimAxis dim : dims) combine(index, dim, dependence);
}

void SignatureBuilder::add_once(std::size_t position, std::string_view keyword) {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (is_at(places_[row], position, keyword)) signature_.added_once[row] = true;
  }
}

void SignatureBuilder::needs_contiguous(std::size_t position) {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (is_at(places_[row], position, {})) signature_.contiguous[row] = true;
  }
}

void SignatureBuilder::keep_scattered_axes_whole(std::size_t row) {
  const Shape& shape = graph_.value(places_[row].value).type.shape;
  int64_t outer = 1;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (outer > 1) keep_whole(signature_.operands[row][d]);
    outer *= std::max<int64_t>(shape[d], 1);
  }
}

void SignatureBuilder::repeats_length(std::size_t position, DimAxis dim, int64_t step) {
  if (dim.axis < 0) return;
  const Arg* arg = argument(position, {});
  const std::optional<int64_t> value = arg == nullptr ? std::nullopt : integer_value(*arg);
  if (!value || *value != axis_length(dim) * step) return fail();
  signature_.lengths.push_back({.position = static_cast<int>(position),
                                .keyword = {},
                                .item = -1,
                                .axis = dim.axis,
                                .step = step});
}

void SignatureBuilder::repeats_lengths(std::size_t position, const Dims& dims,
                                       std::string_view keyword) {
  const Arg* arg = argument(position, keyword);
  const auto* list = arg == nullptr ? nullptr : std::get_if<ArgList>(&arg->value);
  if (list == nullptr || list->size() != dims.size()) return fail();
  const bool positional = position < op_.args.size() && arg == &op_.args[position];
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].axis < 0) continue;
    const std::optional<int64_t> value = integer_value((*list)[d]);
    if (!value || *value != axis_length(dims[d]) * dims[d].step) return fail();
    signature_.lengths.push_back({.position = positional ? static_cast<int>(position) : -1,
                                  .keyword = positional ? std::string() : std::string(keyword),
                                  .item = static_cast<int>(d),
                                  .axis = dims[d].axis,
                                  .step = dims[d].step});
  }
}

// Every axis at most once in a row, and every dimension as long as its axis says.
bool SignatureBuilder::row_fits(const Dims& dims, const Type& type) const {
  if (!type.defined) return dims.empty();
  if (dims.size() != type.shape.size()) return false;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (dims[d].axis < 0) continue;
    const Axis& axis = signature_.axes[static_cast<std::size_t>(dims[d].axis)];
    if (type.shape[d] != axis.length * dims[d].step) return false;
    const auto same_axis = [&](const DimAxis& other) { return other.axis == dims[d].axis; };
    if (axis.splittable && std::count_if(dims.begin(), dims.end(), same_axis) > 1) return false;
  }
  return true;
}

void SignatureBuilder::fill_dependence(std::size_t index) {
  std::vector<Dependence>& row = signature_.dependence[index];
  if (result(index) == nullptr) {
    row.clear();
    return;
  }
  row.resize(signature_.axes.size(), Dependence::once);
  for (DimAxis dim : signature_.results[index]) {
    if (dim.axis >= 0) row[static_cast<std::size_t>(dim.axis)] = Dependence::sliced;
  }
}

std::optional<AxisSignature> SignatureBuilder::finish() {
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (!row_fits(signature_.operands[row], graph_.value(places_[row].value).type)) fail();
  }
  for (std::size_t i = 0; i < op_.results.size(); ++i) {
    if (!row_fits(signature_.results[i], graph_.value(op_.results[i]).type)) fail();
    fill_dependence(i);
  }
  if (failed_) return std::nullopt;
  for (std::size_t row = 0; row < places_.size(); ++row) {
    if (!signature_.contiguous[row]) continue;
    signature_.contiguous[row] = fills_memory_in_order(graph_.value(places_[row].value).type);
    if (!signature_.contiguous[row]) keep_scattered_axes_whole(row);
  }
  return std::move(signature_);
}

}  // namespace magis
