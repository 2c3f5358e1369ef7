#include "transform/rules/attention_parts.h"

#include <utility>
#include <vector>

#include "magis/graph/builder.h"
#include "transform/rules/term_reading.h"

namespace magis {
namespace {

bool is(const Term& term, std::string_view name) { return term.info->name == name; }

ValueId tensor(const Term& term, std::size_t at) {
  const auto* value = at < term.args.size() ? std::get_if<ValueId>(&term.args[at].value) : nullptr;
  return value == nullptr ? ValueId() : *value;
}

int64_t from_end(const Shape& shape, std::size_t place) { return shape[shape.size() - place]; }

class Reader {
 public:
  Reader(const TermGraph& terms, TermId softmax) : terms_(terms) { found_.softmax = softmax; }

  std::optional<AttentionParts> read() {
    const Term& term = terms_.term(found_.softmax);
    const Type& type = terms_.type(term.results.front());
    const std::size_t rank = type.shape.size();
    if (terms_.device() != "cpu" || (type.dtype != DType::f32 && type.dtype != DType::f64) ||
        (rank != 3 && rank != 4) || !is_along_last(term, 1) || !has_no_flag(term)) {
      return std::nullopt;
    }
    weights_ = {term.results.front()};
    // Where all of a row is masked, the kernel gives zeros, as this softmax does.
    may_mask_ = is(term, "aten._safe_softmax");
    found_.batch = rank == 4 ? Shape{type.shape[0], type.shape[1]} : Shape{1, type.shape[0]};
    found_.queries = from_end(type.shape, 2);
    found_.keys = from_end(type.shape, 1);
    if (element_count(type.shape) == 0 || !read_scores(tensor(term, 0)) || !read_out() ||
        !has_lengths() || !read_backward()) {
      return std::nullopt;
    }
    return found_;
  }

 private:
  // ---- forward

  bool is_along_last(const Term& term, std::size_t at) const {
    const auto rank = static_cast<int64_t>(terms_.type(term.results.front()).shape.size());
    const int64_t dim = at < term.args.size() ? integer_value(term.args[at]).value_or(rank) : rank;
    return dim == -1 || dim == rank - 1;
  }
  // It neither casts nor has a dtype.
  static bool has_no_flag(const Term& term) {
    return term.kwargs.empty() &&
           (term.args.size() < 3 || term.args[2] == Arg{false} || term.args[2] == Arg{});
  }

  bool read_scores(ValueId value) {
    const TermId producer = terms_.producer(value);
    if (!producer.valid()) return false;
    const Term& term = terms_.term(producer);
    if (is(term, "aten.bmm")) {
      found_.q = matrices(tensor(term, 0));
      found_.k = matrices(tensor(term, 1)).t();
      return true;
    }
    if (const std::optional<double> by = factor_of(term)) {
      found_.scale *= *by;
      return read_scores(first_operand(term));
    }
    if (keeps_matrices(term)) return read_scores(first_operand(term));
    return read_masked_scores(term);
  }

  bool read_masked_scores(const Term& term) {
    const bool adds = is(term, "aten.add.Tensor") && term.args.size() == 2 && term.kwargs.empty();
    if (!adds || !may_mask_ || found_.mask.valid() || found_.scale != 1) return false;
    const Type& sum = terms_.type(term.results.front());
    if (sum.shape != terms_.type(weights_.base).shape) return false;
    for (const std::size_t scores : {std::size_t{0}, std::size_t{1}}) {
      const ValueId mask = tensor(term, 1 - scores);
      if (!mask.valid() || !tensor(term, scores).valid() || !fits(terms_.type(mask), sum) ||
          terms_.type(tensor(term, scores)).shape != sum.shape) {
        continue;
      }
      const AttentionParts before = found_;
      found_.mask = mask;
      if (read_scores(tensor(term, scores))) return true;
      found_ = before;
    }
    return false;
  }

  // The kernel takes a row of the mask for contiguous memory.
  static bool fits(const Type& mask, const Type& scores) {
    const std::size_t rank = mask.shape.size();
    if (mask.dtype != scores.dtype || rank == 0 || rank > scores.shape.size()) return false;
    for (std::size_t place = 1; place <= rank; ++place) {
      const int64_t length = from_end(mask.shape, place);
      if (length != 1 && length != from_end(scores.shape, place)) return false;
    }
    return mask.shape.back() == 1 || mask.strides.back() == 1;
  }

  bool read_out() {
    for (const Product& product : products_of(weights_)) {
      if (product.left == weights_) {
        found_.v = product.right;
        found_.out = product.result;
        return true;
      }
      if (product.right == weights_.t()) {
        found_.v = product.left.t();
        found_.out = product.result.t();
        return true;
      }
    }
    return false;
  }

  // As many matrices everywhere, of matching lengths; the kernel's values are as wide as its keys.
  bool has_lengths() {
    const auto [rows, width] = lengths(found_.q);
    found_.width = width;
    return rows == found_.queries && lengths(found_.k) == std::pair(found_.keys, width) &&
           lengths(found_.v) == std::pair(found_.keys, width) && is_steady(found_.q) &&
           is_steady(found_.k) && is_steady(found_.v) &&
           (!found_.mask.valid() || !terms_.is_overwritten(found_.mask));
  }
  bool is_steady(const Matrices& of) const { return !terms_.is_overwritten(of.base); }
  std::pair<int64_t, int64_t> lengths(const Matrices& of) const {
    const Shape& shape = terms_.type(of.base).shape;
    const std::pair along(from_end(shape, 2), from_end(shape, 1));
    return of.transposed ? std::pair(along.second, along.first) : along;
  }

  // ---- backward

  bool read_backward() {
    for (TermId reader : terms_.readers(weights_.base)) {
      if (!is(terms_.term(reader), "aten._softmax_backward_data")) continue;
      if (found_.softmax_backward.valid()) return false;
      found_.softmax_backward = reader;
    }
    if (!found_.softmax_backward.valid()) return true;
    const Term& term = terms_.term(found_.softmax_backward);
    const Matrices dp = matrices(tensor(term, 0));
    if (tensor(term, 1) != weights_.base || !is_along_last(term, 2) || dp.transposed) return false;
    const TermId producer = terms_.producer(dp.base);
    if (!producer.valid() || !is(terms_.term(producer), "aten.bmm")) return false;
    found_.grad = matrices(tensor(terms_.term(producer), 0));
    if (matrices(tensor(terms_.term(producer), 1)) != found_.v.t() || !is_steady(found_.grad)) {
      return false;
    }
    const std::optional<Matrices> ds = scaled(term.results.front());
    if (!ds) return false;
    found_.dv = product_of(weights_.t(), found_.grad);
    found_.dq = product_of(*ds, found_.k);
    found_.dk = product_of(ds->t(), found_.q);
    return is_there(found_.dv) && is_there(found_.dq) && is_there(found_.dk);
  }

  static bool is_there(const Made& made) { return made.product.base.valid(); }

  // The multiple of what the softmax's backward makes, if it is the scores'.
  std::optional<Matrices> scaled(ValueId value) const {
    double scale = 1;
    while (terms_.readers(value).size() == 1) {
      const Term& reader = terms_.term(terms_.readers(value).front());
      const std::optional<double> by = factor_of(reader);
      if (!by && !keeps_matrices(reader)) break;
      scale *= by.value_or(1);
      value = reader.results.front();
    }
    return scale == found_.scale ? std::optional(matrices(value)) : std::nullopt;
  }

  // ---- matrices and products

  struct Product {
    Matrices left, right;
    Made result;
  };

  Matrices matrices(ValueId value) const {
    Matrices found{value};
    for (;;) {
      const TermId producer = terms_.producer(found.base);
      if (!producer.valid()) return found;
      const Term& term = terms_.term(producer);
      if (transposes(term)) {
        found.transposed = !found.transposed;
      } else if (!keeps_matrices(term)) {
        return found;
      }
      found.base = first_operand(term);
    }
  }

  // A view of batches in other dimensions.
  bool keeps_matrices(const Term& term) const {
    if (!is(term, "aten.view")) return false;
    const Shape& from = terms_.type(first_operand(term)).shape;
    const Shape& to = terms_.type(term.results.front()).shape;
    return from.size() >= 2 && to.size() >= 2 && from_end(from, 1) == from_end(to, 1) &&
           from_end(from, 2) == from_end(to, 2);
  }

  static bool transposes(const Term& term) {
    if (!is(term, "aten.permute")) return false;
    const auto& dims = std::get<ArgList>(term.args.at(1).value);
    const std::size_t rank = dims.size();
    if (rank < 3) return false;
    for (std::size_t d = 0; d < rank; ++d) {
      const std::size_t wanted = d + 2 < rank ? d : 2 * rank - 3 - d;
      if (integer_value(dims[d]) != static_cast<int64_t>(wanted)) return false;
    }
    return true;
  }

  // All that read the matrices, through views or not.
  std::vector<Product> products_of(const Matrices& of) const {
    std::vector<Product> found;
    std::vector<ValueId> waiting{of.base};
    while (!waiting.empty()) {
      const ValueId value = waiting.back();
      waiting.pop_back();
      for (TermId id : terms_.readers(value)) {
        const Term& reader = terms_.term(id);
        if (transposes(reader) || keeps_matrices(reader)) waiting.push_back(reader.results.front());
        if (!is(reader, "aten.bmm")) continue;
        found.push_back({matrices(tensor(reader, 0)),
                         matrices(tensor(reader, 1)),
                         {{reader.results.front()}, last_view(reader.results.front())}});
      }
    }
    return found;
  }

  // Invalid if there is none.
  Made product_of(const Matrices& left, const Matrices& right) const {
    for (const Product& product : products_of(left)) {
      if (product.left == left && product.right == right) return product.result;
      if (product.left == right.t() && product.right == left.t()) return product.result.t();
    }
    return {};
  }

  Matrices last_view(ValueId value) const {
    Matrices found{value};
    while (!terms_.is_output(found.base) && terms_.readers(found.base).size() == 1) {
      const Term& reader = terms_.term(terms_.readers(found.base).front());
      if (transposes(reader)) {
        found.transposed = !found.transposed;
      } else if (!keeps_matrices(reader)) {
        break;
      }
      found.base = reader.results.front();
    }
    return found;
  }

  const TermGraph& terms_;
  AttentionParts found_;
  Matrices weights_;
  bool may_mask_ = false;
};

}  // namespace

std::optional<AttentionParts> attention_parts(const TermGraph& terms, TermId softmax) {
  return Reader(terms, softmax).read();
}

}  // namespace magis
