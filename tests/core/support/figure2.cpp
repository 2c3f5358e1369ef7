#include "support/figure2.h"

namespace magis::test {

std::string figure2() {
  std::string text = "magis 1\ndevice cpu\nbatch %in \"in\" : f32[32]\n";
  const auto add = [&](const std::string& name, const std::string& call) {
    text += "%" + name + " = " + call + " : f32[32]\n";
  };
  add("x1", "aten.relu6(%in)");
  for (int i = 2; i <= 32; ++i) {
    add("x" + std::to_string(i), "aten.relu6(%x" + std::to_string(i - 1) + ")");
  }
  add("m", "aten.relu6(%x32)");
  for (int i = 1; i <= 32; ++i) {
    const std::string before = i == 1 ? "m" : "y" + std::to_string(i - 1);
    add("y" + std::to_string(i),
        "aten.rsub.Tensor(%" + before + ", %x" + std::to_string(33 - i) + ")");
  }
  return text + "output loss \"\" %y32\n";
}

}  // namespace magis::test
