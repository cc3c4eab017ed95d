# Included by CMake right after the project() call of llama.cpp, when llama-cpp-python is compiled (see the Makefile).
# The Python binding loads libllama and libggml only; llama.cpp's "common" library (argument parsing, downloads,
# chat templates for its own tools) would be a third of the compile time. llama-cpp-python forces it on in the cache; a
# normal variable of the same name, set here, wins over the cache entry.
set(LLAMA_BUILD_COMMON OFF)
