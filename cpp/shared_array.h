// An array that copies share, so that a network can be seen from several searches at once. Its
// memory begins as zeros that the system hands out page by page when they are first touched:
// threads that fill different parts of a large array do not wait for one that clears it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace dope {

template <class T>
class SharedArray {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    SharedArray() = default;
    explicit SharedArray(std::size_t size) : size_(size) {
        if (size == 0) return;
        auto* const memory = static_cast<T*>(std::calloc(size, sizeof(T)));
        if (!memory) throw std::bad_alloc();
        items_ = std::shared_ptr<T[]>(memory, [](T* freed) { std::free(freed); });
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* data() const { return items_.get(); }
    T& operator[](std::size_t k) const { return items_.get()[k]; }
    T* begin() const { return data(); }
    T* end() const { return data() + size_; }

  private:
    std::shared_ptr<T[]> items_;
    std::size_t size_ = 0;
};

}  // namespace dope
