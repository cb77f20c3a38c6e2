// A function that is called while somebody else keeps it: for loops that many call with functions
// of their own, and that are compiled once.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace dope {

template <class Signature>
class FunctionRef;

template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
  public:
    template <class Function>
        requires(!std::is_same_v<std::remove_cvref_t<Function>, FunctionRef>)
    FunctionRef(Function&& function)  // NOLINT: meant to convert
        : function_(const_cast<void*>(static_cast<const void*>(std::addressof(function)))),
          call_([](void* kept, Arguments... arguments) -> Result {
              return (*static_cast<std::remove_reference_t<Function>*>(kept))(arguments...);
          }) {}

    Result operator()(Arguments... arguments) const { return call_(function_, arguments...); }

  private:
    void* function_;
    Result (*call_)(void*, Arguments...);
};

}  // namespace dope
