#include "support/random_graph.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "magis/graph/builder.h"
#include "magis/graph/view_type.h"
#include "support/random.h"

namespace magis::test {
namespace {

Arg list_of(const std::vector<int64_t>& numbers) {
  ArgList list;
  for (int64_t number : numbers) list.push_back({number});
  return {std::move(list)};
}

Type contiguous(Shape shape, DType dtype = DType::f32) {
  Type type{.dtype = dtype, .shape = std::move(shape)};
  type.strides = contiguous_strides(type.shape);
  type.storage = minimal_storage(type);
  return type;
}

// What a PyTorch kernel makes of one operand elementwise: dense, its dimensions in the order of the
// operand's strides.
Type elementwise(const Type& operand, DType dtype) {
  Type type = contiguous(operand.shape, dtype);
  std::vector<std::size_t> order(operand.shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return operand.strides[a] > operand.strides[b];
  });
  int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    type.strides[order[i]] = stride;
    stride *= type.shape[order[i]];
  }
  return type;
}

bool is_plain(const Type& type) { return type.dtype == DType::f32 && is_contiguous(type); }
// Strides that say in which order the dimensions lie: no expanded ones, none of length 1.
bool has_order(const Type& type) {
  return type.dtype == DType::f32 &&
         std::ranges::none_of(type.strides, [](int64_t stride) { return stride == 0; }) &&
         std::ranges::none_of(type.shape, [](int64_t length) { return length == 1; });
}

class Generator {
 public:
  Generator(uint64_t seed, const RandomGraphOptions& options) : options_(options), random_(seed) {}

  Graph generate(int op_count) {
    add_inputs();
    while (ops_ < op_count) add_something();
    const ValueId loss = add_loss();
    add_outputs(loss);
    return std::move(builder_).build();
  }

 private:
  using Accepts = std::function<bool(const Type&)>;

  // ---- choosing
  bool chance(int percent) { return random_.below(100) < static_cast<uint64_t>(percent); }
  const Type& type(ValueId id) const { return builder_.value(id).type; }

  // Mostly something that nobody has read so far, sometimes an old value again: that makes long
  // lifetimes.
  std::optional<ValueId> pick(const Accepts& accepts) {
    std::vector<ValueId> candidates;
    std::vector<ValueId> unread;
    for (ValueId id : values_) {
      if (!accepts(type(id))) continue;
      candidates.push_back(id);
      if (std::ranges::count(unread_, owner(id)) != 0) unread.push_back(id);
    }
    if (candidates.empty()) return std::nullopt;
    const auto& chosen = !unread.empty() && chance(60) ? unread : candidates;
    return chosen[random_.below(chosen.size())];
  }

  ValueId owner(ValueId id) const {
    while (builder_.value(id).kind == ValueKind::view) id = builder_.value(id).base;
    return id;
  }

  std::string new_name() { return "v" + std::to_string(next_name_++); }

  // ---- adding
  void add_inputs() {
    for (int i = 0; i < std::max(options_.inputs, 1); ++i) {
      const InputKind kind = i == 0 ? InputKind::batch : InputKind::param;
      const std::string number = std::to_string(i);
      values_.push_back(
          builder_.add_input(kind, "input" + number, "inputs." + number, contiguous(any_shape())));
      if (kind == InputKind::param) state_.push_back(values_.back());
    }
    if (options_.mutating) {
      buffer_ = builder_.add_input(InputKind::buffer, "buffer", "running", contiguous({4, 6}));
      values_.push_back(buffer_);
      state_.push_back(buffer_);
    }
    if (options_.sites) {
      for (int i = 1; i <= 3; ++i) {
        sites_.push_back(builder_.add_site(i, "layer." + std::to_string(i),
                                           "model.py:" + std::to_string(10 * i)));
      }
    }
  }

  Shape any_shape() {
    static const std::vector<Shape> kShapes = {{4, 6}, {6, 4}, {2, 4, 6}, {4, 4}, {2, 6, 4}};
    return kShapes[random_.below(kShapes.size())];
  }

  // Adds the operator; its first result can be read from now on.
  std::vector<ValueId> add(std::string_view name, ArgList args, std::vector<Type> types,
                           KeywordArgs kwargs = {}) {
    Operator op;
    op.info = &op_info(name);
    op.args = std::move(args);
    op.kwargs = std::move(kwargs);
    op.backward = chance(30);
    if (!sites_.empty() && chance(60)) op.site = sites_[random_.below(sites_.size())];
    if (options_.scratch && chance(10)) op.scratch = 16 * static_cast<Bytes>(1 + random_.below(40));
    std::vector<std::string> names;
    for (std::size_t i = 0; i < types.size(); ++i) names.push_back(new_name());
    for_each_value(op, [&](ValueId id) { mark_read(id); });
    std::vector<ValueId> results =
        builder_.add_operator(std::move(op), std::move(names), std::move(types));
    ++ops_;
    if (type(results[0]).defined) {
      values_.push_back(results[0]);
      unread_.push_back(results[0]);
    }
    return results;
  }

  void mark_read(ValueId id) { std::erase(unread_, owner(id)); }

  void add_something() {
    const uint64_t kind = random_.below(100);
    if (kind < 20) return add_unary();
    if (kind < 38) return add_binary();
    if (kind < 48) return add_product();
    if (kind < 52) return add_reduction();
    if (kind < 57 && options_.multi_result) return add_multi_result();
    if (kind < 82 && options_.views) return add_view();
    if (kind < 86) return add_copy();
    if (kind < 90 && options_.random) return add_mask();
    if (kind < 94 && options_.mutating) return add_write();
    if (kind < 96 && options_.opaque) return add_opaque();
    if (kind < 97) return add_factory();
    add_choice();
  }

  void add_unary() {
    const auto x = pick(has_order);
    if (!x) return;
    const Type result = elementwise(type(*x), DType::f32);
    if (!options_.in_place) {
      add("aten.celu", {{*x}}, {result});
      return;
    }
    switch (random_.below(6)) {
      case 0:
        add("aten.relu", {{*x}}, {result});
        break;
      case 1:
        add("aten.gelu", {{*x}}, {result}, {{"approximate", {std::string("tanh")}}});
        break;
      case 2:
        add("aten.tanh", {{*x}}, {result});
        break;
      case 3:
        add("aten.neg", {{*x}}, {result});
        break;
      case 4:
        add("aten.mul.Scalar", {{*x}, {0.5}}, {result});
        break;
      default:
        add("aten.clamp", {{*x}, {-2.0}, {2.0}}, {result});
        break;
    }
  }

  // Both operands in the same layout, so that the result has it too.
  void add_binary() {
    const auto a = pick(has_order);
    if (!a) return;
    const Type result = elementwise(type(*a), DType::f32);
    const auto b = pick([&](const Type& other) {
      return has_order(other) && other.shape == result.shape &&
             elementwise(other, DType::f32) == result;
    });
    const bool same_strides = type(*a).strides == type(*b).strides;
    if (!same_strides) return;
    switch (random_.below(options_.in_place ? 5 : 1)) {
      case 0:
        add("aten.rsub.Tensor", {{*a}, {*b}}, {result});
        break;
      case 1:
        add("aten.add.Tensor", {{*a}, {*b}}, {result});
        break;
      case 2:
        add("aten.add.Tensor", {{*a}, {*b}}, {result}, {{"alpha", {0.5}}});
        break;
      case 3:
        add("aten.tanh", {{add("aten.tanh_backward", {{*a}, {*b}}, {result})[0]}}, {result});
        break;
      default:
        add("aten.threshold_backward", {{*a}, {*b}, {int64_t{0}}}, {result});
        break;
    }
  }

  void add_product() {
    const auto matrix = [](const Type& t) { return has_order(t) && t.shape.size() == 2; };
    const auto a = pick(matrix);
    if (!a) return;
    const auto b =
        pick([&](const Type& t) { return matrix(t) && t.shape[0] == type(*a).shape[1]; });
    if (!b) return;
    const Type result = contiguous({type(*a).shape[0], type(*b).shape[1]});
    const ValueId product = add("aten.mm", {{*a}, {*b}}, {result})[0];
    add("aten.tanh", {{product}}, {result});  // keeps the values small
  }

  void add_reduction() {
    const auto x = pick([](const Type& t) { return is_plain(t) && !t.shape.empty(); });
    if (!x) return;
    const std::size_t d = random_.below(type(*x).shape.size());
    Shape shape = type(*x).shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(d));
    add("aten.mean.dim", {{*x}, list_of({static_cast<int64_t>(d)})}, {contiguous(shape)});
  }

  void add_multi_result() {
    const auto x = pick([](const Type& t) { return is_plain(t) && t.shape.size() >= 2; });
    if (!x) return;
    Shape kept = type(*x).shape;
    const int64_t length = std::exchange(kept.back(), 1);
    if (chance(50)) {
      add("aten.native_layer_norm", {{*x}, list_of({length}), {None{}}, {None{}}, {1e-05}},
          {type_of_copy(*x), contiguous(kept), contiguous(kept)});
    } else {
      const auto results = add("aten.max.dim", {{*x}, {int64_t{-1}}, {true}},
                               {contiguous(kept), contiguous(kept, DType::i64)});
      add("aten.gather", {{*x}, {int64_t{-1}}, {results[1]}}, {contiguous(kept)});
    }
  }

  Type type_of_copy(ValueId x) { return contiguous(type(x).shape); }

  void add_view() {
    const auto base = pick([](const Type& t) { return t.dtype == DType::f32 && !t.shape.empty(); });
    if (!base) return;
    Call call;
    const Shape& shape = type(*base).shape;
    const auto rank = static_cast<int64_t>(shape.size());
    const auto d = static_cast<int64_t>(random_.below(shape.size()));
    const int64_t length = shape[static_cast<std::size_t>(d)];
    switch (random_.below(7)) {
      case 0: {
        std::vector<int64_t> order;
        for (int64_t i = 0; i < rank; ++i) order.push_back(rank - 1 - i);
        call = {&op_info("aten.permute"), {{*base}, list_of(order)}, {}};
        break;
      }
      case 1:
        call = {&op_info("aten.view"), {{*base}, list_of({-1, shape.back()})}, {}};
        break;
      case 2:
        call = {&op_info("aten.unsqueeze"), {{*base}, {d}}, {}};
        break;
      case 3:
        call = {&op_info("aten.slice.Tensor"), {{*base}, {d}, {length / 2}, {INT64_MAX}}, {}};
        break;
      case 4:
        call = {&op_info("aten.select.int"), {{*base}, {d}, {length - 1}}, {}};
        break;
      case 5: {
        Shape expanded = shape;
        expanded.insert(expanded.begin(), 2);
        call = {&op_info("aten.expand"), {{*base}, list_of(expanded)}, {}};
        break;
      }
      default:
        call = {&op_info("aten.squeeze.dim"), {{*base}, {d}}, {}};
        break;
    }
    const auto derived = derive_view(call, type(*base));
    if (const auto* view = std::get_if<Type>(&derived); view != nullptr && view->shape.size() < 5) {
      values_.push_back(builder_.add_view(new_name(), std::move(call), *view));
    }
  }

  void add_copy() {
    const auto x = pick([](const Type& t) { return t.dtype == DType::f32 && !t.shape.empty(); });
    if (!x || element_count(type(*x).shape) > 200) return;
    if (chance(50)) {
      add("aten.clone", {{*x}}, {type_of_copy(*x)},
          {{"memory_format", {Symbol{"contiguous_format"}}}});
      return;
    }
    const auto plain = pick([](const Type& t) { return is_plain(t) && t.shape.size() == 2; });
    if (!plain) return;
    Shape shape = type(*plain).shape;
    shape[0] *= 2;
    add("aten.cat", {{ArgList{{*plain}, {*plain}}}}, {contiguous(shape)});
    const ValueId joined = values_.back();
    Call half{
        &op_info("aten.slice.Tensor"), {{joined}, {int64_t{0}}, {int64_t{0}}, {shape[0] / 2}}, {}};
    const Type view = std::get<Type>(derive_view(half, type(joined)));
    values_.push_back(builder_.add_view(new_name(), std::move(half), view));
  }

  void add_mask() {
    const auto x = pick([](const Type& t) { return is_plain(t) && !t.shape.empty(); });
    if (!x) return;
    const Type mask = type_of_copy(*x);
    const ValueId drawn =
        add("magis.bernoulli", {list_of(mask.shape), list_of(mask.strides), {0.9}}, {mask},
            {{"dtype", {Symbol{"float32"}}}})[0];
    add("aten.mul.Tensor", {{*x}, {drawn}}, {mask});
  }

  // The input is read before it is written, or after, as it comes.
  void add_write() {
    const ValueId input = state_[random_.below(state_.size())];
    const auto x = pick([&](const Type& t) { return t == type(input); });
    if (!x || owner(*x) == input) return;
    add("aten.lerp_.Scalar", {{input}, {*x}, {0.1}}, {Type{.defined = false}});
    written_ = written_ || input == buffer_;
  }

  void add_opaque() {
    const auto x = pick(has_order);
    if (x) add("aten.special_bessel_j0", {{*x}}, {elementwise(type(*x), DType::f32)});
  }

  void add_factory() {
    const Type result = contiguous(any_shape());
    add("aten.full", {list_of(result.shape), {0.25}}, {result},
        {{"dtype", {Symbol{"float32"}}}, {"device", {Device{"cpu"}}}, {"pin_memory", {false}}});
  }

  void add_choice() {
    const auto a = pick(is_plain);
    const auto b = pick([&](const Type& t) { return is_plain(t) && t.shape == type(*a).shape; });
    const Type result = type_of_copy(*a);
    const ValueId mask =
        add("aten.ge.Scalar", {{*a}, {int64_t{0}}}, {contiguous(result.shape, DType::boolean)})[0];
    values_.pop_back();  // not a float
    add("aten.where.self", {{mask}, {*a}, {*b}}, {result});
  }

  // ---- the end
  // Adds up what nobody has read.
  ValueId add_loss() {
    const Type scalar = contiguous({});
    std::optional<ValueId> loss;
    const std::vector<ValueId> unread = unread_;
    for (ValueId id : unread) {
      if (chance(15)) {
        kept_.push_back(id);
        continue;
      }
      const ValueId sum = add("aten.mean", {{id}}, {scalar})[0];
      loss = loss ? add("aten.add.Tensor", {{*loss}, {sum}}, {scalar})[0] : sum;
    }
    return loss ? *loss : add("aten.mean", {{values_.front()}}, {scalar})[0];
  }

  void add_outputs(ValueId loss) {
    builder_.add_output(OutputKind::loss, "", loss);
    const ValueId last = *pick([](const Type&) { return true; });
    std::vector<ValueId> owners = {owner(loss), owner(last)};
    for (ValueId id : kept_) owners.push_back(owner(id));
    int number = 0;
    for (ValueId id : kept_) {
      // A gradient has storage of its own.
      const bool apart = std::count(owners.begin(), owners.end(), owner(id)) == 1;
      const OutputKind kind = apart && number % 4 != 3 ? OutputKind::grad : OutputKind::aux;
      builder_.add_output(kind, "kept." + std::to_string(number++), id);
    }
    builder_.add_output(OutputKind::aux, "last", last);
    if (written_ && owner(last) != owner(buffer_)) {
      builder_.add_output(OutputKind::buffer, "running", buffer_);
    }
  }

  const RandomGraphOptions& options_;
  Random random_;
  GraphBuilder builder_;
  std::vector<ValueId> values_;  // what may be read: floats only
  std::vector<ValueId> unread_;  // results that nobody has read so far
  std::vector<ValueId> kept_;    // results that become outputs
  std::vector<SiteId> sites_;
  ValueId buffer_;
  std::vector<ValueId> state_;  // inputs that may be written to
  bool written_ = false;        // something wrote to the buffer
  int ops_ = 0;
  int next_name_ = 0;
};

}  // namespace

Graph make_random_graph(uint64_t seed, int op_count, const RandomGraphOptions& options) {
  return Generator(seed, options).generate(op_count);
}

}  // namespace magis::test
