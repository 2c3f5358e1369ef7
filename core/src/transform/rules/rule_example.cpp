#include "transform/rules/rule_example.h"

#include <algorithm>
#include <random>
#include <utility>

#include "magis/graph/builder.h"
#include "transform/rules/pattern_matcher.h"

namespace magis {
namespace {

class LeftSide {
 public:
  LeftSide(const Rule& rule, uint64_t seed) : rule_(rule), random_(seed), binding_(rule) {
    binding_.nodes.resize(rule.nodes.size());
  }

  std::optional<Graph> build() {
    choose_lengths();
    choose_numbers();
    for (std::size_t n = 0; n < rule_.left_count; ++n) {
      if (!add_node(static_cast<int>(n))) return std::nullopt;
    }
    for (const Rule::Root& root : rule_.roots) add_output(at(root.from));
    return std::move(builder_).build();
  }

 private:
  template <class T>
  T one_of(std::initializer_list<T> choices) {
    return *(choices.begin() + static_cast<std::ptrdiff_t>(random_() % choices.size()));
  }
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  void choose_lengths() {
    SymbolValues& symbols = binding_.symbols;
    for (std::size_t s = 0; s < rule_.symbols.lengths.size(); ++s) {
      if (is_free(static_cast<int>(s))) symbols.lengths[s] = 1 + below(6);
    }
    for (std::size_t s = 0; s < rule_.symbols.stars.size(); ++s) {
      const int count = rule_.symbols.star_elements[s];
      const auto fact = std::ranges::find(rule_.facts, count, &std::pair<int, Polynomial>::first);
      if (fact == rule_.facts.end()) set_star(s, random_shape());
    }
    // Facts in their order: each follows from what is known before.
    for (const auto& [symbol, by] : rule_.facts) {
      const auto star = std::ranges::find(rule_.symbols.star_elements, symbol);
      const std::optional<int64_t> value = by.evaluate(symbols.lengths);
      if (star == rule_.symbols.star_elements.end() || !value) continue;
      set_star(static_cast<std::size_t>(star - rule_.symbols.star_elements.begin()),
               shape_of_size(*value));
    }
  }

  // Not how many elements a star has, nor the size of a convolution's images.
  bool is_free(int symbol) const {
    return rule_.symbols.lengths[static_cast<std::size_t>(symbol)].front() != '(' &&
           std::ranges::find(rule_.symbols.star_elements, symbol) ==
               rule_.symbols.star_elements.end();
  }

  void set_star(std::size_t star, Shape shape) {
    binding_.symbols.lengths[static_cast<std::size_t>(rule_.symbols.star_elements[star])] =
        element_count(shape);
    binding_.symbols.stars[star] = std::move(shape);
  }

  Shape random_shape() {
    Shape shape;
    for (int64_t rank = below(4); rank > 0; --rank) shape.push_back(1 + below(5));
    return shape;
  }

  Shape shape_of_size(int64_t size) {
    Shape shape;
    for (int64_t factor = 2; factor <= size && shape.size() < 3; ++factor) {
      if (size % factor != 0 || below(2) == 0) continue;
      shape.push_back(factor);
      size /= factor;
    }
    shape.push_back(size);
    return shape;
  }

  void choose_numbers() {
    for (std::optional<double>& number : binding_.numbers) {
      number = one_of({0.5, 2.0, 3.0, 1.5, 0.25});
    }
    const auto pair = [](int64_t a) {
      ArgList list;
      for (int i = 0; i < 2; ++i) list.push_back({a});
      return as_arg(std::move(list));
    };
    for (std::size_t a = 0; a < rule_.attributes.size(); ++a) {
      const std::string& name = rule_.attributes[a];
      binding_.attributes[a] = pair(name == "padding"  ? below(2)
                                    : name == "output" ? 0
                                                       : 1 + below(2));
    }
  }

  ValueId at(int node) const { return binding_.nodes[static_cast<std::size_t>(node)]; }

  bool add_node(int id) {
    const PatternNode& node = rule_.nodes[static_cast<std::size_t>(id)];
    if (node.word == nullptr) {
      const std::optional<Shape> shape = binding_.symbols.evaluate(node.shape);
      if (!shape) return false;
      binding_.nodes[static_cast<std::size_t>(id)] = add_input(node.name, *shape);
      return true;
    }
    if (node.word->name == "convolution" && !bind_images(node)) return false;
    const std::optional<Shape> shape = binding_.symbols.evaluate(node.shape);
    if (!shape) return false;
    Call call{.info = node.word->infos.front(), .kwargs = keywords_of(node, binding_)};
    for (std::size_t a = 0; a < node.args.size(); ++a) {
      call.args.push_back(argument(node, a));
    }
    std::vector<const Type*> operands;
    for_each_value(call, [&](ValueId value) { operands.push_back(&builder_.value(value).type); });
    std::optional<Type> type = result_type(*node.word, call, operands, *shape);
    if (!type) return false;
    const std::string name = "n" + std::to_string(id);
    ValueId made;
    if (node.word->layout == Layout::view) {
      made = builder_.add_view(name, std::move(call), *type);
    } else {
      Operator op;
      static_cast<Call&>(op) = std::move(call);
      made = builder_.add_operator(std::move(op), {name}, {*type}).front();
    }
    binding_.nodes[static_cast<std::size_t>(id)] = made;
    return true;
  }

  ValueId add_input(const std::string& name, const Shape& shape) {
    return builder_.add_input(InputKind::param, name, name, contiguous_type(DType::f64, shape));
  }

  // The lengths of a convolution's images, from PyTorch's formula.
  bool bind_images(const PatternNode& node) {
    const auto shape_of = [&](std::size_t a) -> const Shape& {
      return builder_.value(at(node.args[a].node)).type.shape;
    };
    const auto item = [&](std::size_t a, std::size_t d) {
      const PatternArg& arg = node.args[a];
      const Arg& list = arg.attribute < 0
                            ? arg.literal
                            : *binding_.attributes[static_cast<std::size_t>(arg.attribute)];
      return *integer_value(std::get<ArgList>(list.value)[d]);
    };
    for (std::size_t d : {0UL, 1UL}) {
      const int64_t kernel = item(5, d) * (shape_of(1)[d + 2] - 1) + 1;
      const int64_t padded = shape_of(0)[d + 2] + 2 * item(4, d);
      if (padded < kernel) return false;
      const int64_t length = (padded - kernel) / item(3, d) + 1;
      if (!binding_.symbols.unify(node.shape.before[d + 2], length)) return false;
    }
    return true;
  }

  Arg argument(const PatternNode& node, std::size_t a) {
    const PatternArg& arg = node.args[a];
    switch (node.word->args[a]) {
      case ArgKind::tensor:
        return {at(arg.node)};
      case ArgKind::tensors:
        return items(node, arg);
      case ArgKind::dim:
        return {arg.dims.front()};
      case ArgKind::dims: {
        ArgList list;
        for (int64_t dim : arg.dims) list.push_back({dim});
        return as_arg(std::move(list));
      }
      default:
        return plain_argument(node.word->args[a], arg, binding_);
    }
  }

  // A sequence becomes one to three inputs.
  Arg items(const PatternNode& node, const PatternArg& arg) {
    ArgList list;
    for (const ListItem& item : arg.items) {
      if (item.node >= 0) {
        list.push_back({at(item.node)});
        continue;
      }
      const Sequence& sequence = rule_.sequences[static_cast<std::size_t>(item.sequence)];
      Shape shape = *binding_.symbols.evaluate(sequence.shape);
      const int64_t dim = node.args[1].dims[0];
      int64_t& length =
          shape[static_cast<std::size_t>(dim < 0 ? dim + static_cast<int64_t>(shape.size()) : dim)];
      for (int64_t left = length; left > 0;) {
        length = 1 + below(left);
        left -= length;
        list.push_back({add_input(sequence.name + std::to_string(list.size()), shape)});
      }
    }
    return as_arg(std::move(list));
  }

  void add_output(ValueId value) {
    const std::string name = "read_" + builder_.value(value).name;
    Operator op;
    op.info = &op_info("aten.neg");
    op.args = {{value}};
    Type type = contiguous_type(DType::f64, builder_.value(value).type.shape);
    const Type& read = builder_.value(value).type;
    if (is_dense(read)) type.strides = read.strides;
    const ValueId made = builder_.add_operator(std::move(op), {name}, {type}).front();
    builder_.add_output(OutputKind::aux, "['" + name + "']", made);
  }

  const Rule& rule_;
  std::mt19937_64 random_;
  Binding binding_;
  GraphBuilder builder_;
};

}  // namespace

std::optional<Graph> left_side(const Rule& rule, uint64_t seed) {
  return LeftSide(rule, seed).build();
}

}  // namespace magis
