// Axis signatures under construction: what the rules of the op table are written with.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "magis/graph/axes.h"

namespace magis {

using Dims = std::vector<DimAxis>;

// A signature in which nothing is split yet: every dimension belongs to no axis, every result
// depends on no axis. Whatever does not fit (an argument of another kind, lengths that disagree)
// makes finish() return nothing, so that rules need no checks of their own.
class SignatureBuilder {
 public:
  SignatureBuilder(const Graph& graph, const Operator& op);

  // ---- reading the call
  // The tensor at that place; null if there is none.
  const Type* operand(std::size_t position, std::string_view keyword = {}) const;
  // A result's type; null if it is undefined.
  const Type* result(std::size_t index) const;
  std::size_t result_count() const { return op_.results.size(); }
  // Arguments, or `otherwise` where they are absent or none. An argument of another kind spoils
  // the signature.
  int64_t integer(std::size_t position, std::string_view keyword, int64_t otherwise = 0);
  std::vector<int64_t> integers(std::size_t position, std::string_view keyword);
  bool truth(std::size_t position, std::string_view keyword, bool otherwise = false);
  double number(std::size_t position, std::string_view keyword, double otherwise = 0);
  // Not given, or none.
  bool absent(std::size_t position, std::string_view keyword) const;
  // A dimension of a tensor of that rank, counted from the end if negative.
  std::size_t dimension(int64_t number, std::size_t rank);

  // ---- axes
  DimAxis add_axis(int64_t length, bool splittable = true);
  // One axis for each dimension.
  Dims add_axes(const Shape& shape, bool splittable = true);
  int64_t axis_length(DimAxis dim) const;
  void keep_whole(DimAxis dim);
  // What a tensor that broadcasts to `dims` has of them: aligned at the right, and none where it is
  // 1 long and the axis is longer.
  Dims broadcast(const Type& type, const Dims& dims);

  // ---- rows
  // Does nothing where the argument is no tensor. A list of tensors gets the row for each.
  void set_operand(std::size_t position, const Dims& dims, std::string_view keyword = {});
  void broadcast_operand(std::size_t position, const Dims& dims, std::string_view keyword = {});
  void broadcast_every_operand(const Dims& dims);
  void set_operand_in_list(std::size_t position, std::size_t item, const Dims& dims);
  void set_result(std::size_t index, const Dims& dims);  // does nothing for undefined results
  void combine(std::size_t result, DimAxis dim, Dependence dependence);
  void combine(std::size_t result, const Dims& dims, Dependence dependence);
  void add_once(std::size_t position, std::string_view keyword = {});
  // The kernel reads this operand as contiguous memory, whatever its strides say, or refuses it
  // otherwise. One that is not contiguous as a whole is sliced along its first dimension alone.
  void needs_contiguous(std::size_t position);
  // The integer, or the list of integers, at that place repeats the lengths of `dims`.
  void repeats_length(std::size_t position, DimAxis dim, int64_t step = 1);
  void repeats_lengths(std::size_t position, const Dims& dims, std::string_view keyword = {});

  void fail() { failed_ = true; }
  std::optional<AxisSignature> finish();

 private:
  struct Place {  // of a row of `operands`
    int position;
    std::string keyword;
    int item;  // within a list of tensors, else -1
    ValueId value;
  };
  void collect(const Arg& arg, int position, const std::string& keyword, int item);
  bool is_at(const Place& place, std::size_t position, std::string_view keyword) const;
  const Arg* argument(std::size_t position, std::string_view keyword) const;
  bool row_fits(const Dims& dims, const Type& type) const;
  void fill_dependence(std::size_t result);
  void keep_scattered_axes_whole(std::size_t row);

  const Graph& graph_;
  const Operator& op_;
  std::vector<Place> places_;
  AxisSignature signature_;
  bool failed_ = false;
};

// The signature that a notation gives for this call. One entry for each positional argument, then
// `->`, then one for each result:
//   mk      a tensor's dimensions: one axis each; the same letter is the same axis everywhere
//   N       in upper case: the axis stays whole
//   b*      any number of dimensions, the same number wherever b* stands
//   . .*    a dimension, or any number of them, that belong to no axis
//   ~mn     broadcasts to mn
//   !mn     enters the result's sum as it is: only one part may add it
//   #mn     is read as contiguous memory: a part that is not is copied
//   [mk]    a list of integers that repeats the lengths of m and k
//   _       an argument that has nothing to do with axes
//   mn+k    a result that is a sum over k
//   mn=k    a result that does not depend on k
// Tensors that are none are skipped, trailing arguments may be left out of the notation.
// "mk, kn -> mn+k" is a matrix product. Each axis in lower case has to be named in each result.
std::optional<AxisSignature> notation_signature(const Graph& graph, const Operator& op,
                                                std::string_view notation);

// A notation that is not well-formed, in words; nothing if it is.
std::optional<std::string> notation_error(std::string_view notation);

}  // namespace magis
