# Finds Arrow and Parquet C++: an installed Arrow (find_package) where the user asks for it with
# -DTHALWEG_SYSTEM_ARROW=ON or sets Arrow_DIR, else the headers and libraries in the pyarrow wheel of THALWEG_PYTHON.
# Defines the target thalweg_arrow and THALWEG_ARROW_LIBRARY_DIR.
option(THALWEG_SYSTEM_ARROW "Use an installed Arrow instead of the pyarrow wheel's" OFF)
add_library(thalweg_arrow INTERFACE)
add_library(thalweg::arrow ALIAS thalweg_arrow)
if(THALWEG_SYSTEM_ARROW OR DEFINED Arrow_DIR)
  find_package(Arrow 26 REQUIRED)
  find_package(ArrowCompute 26 REQUIRED)
  find_package(Parquet 26 REQUIRED)
  find_package(ArrowS3 26 QUIET)  # a library of its own, or part of Arrow's
  target_link_libraries(thalweg_arrow INTERFACE Arrow::arrow_shared ArrowCompute::arrow_compute_shared
                                                Parquet::parquet_shared)
  if(TARGET ArrowS3::arrow_s3_shared)
    target_link_libraries(thalweg_arrow INTERFACE ArrowS3::arrow_s3_shared)
  endif()
  get_filename_component(THALWEG_ARROW_LIBRARY_DIR "${Arrow_DIR}/../.." ABSOLUTE)
else()
  if(SKBUILD)
    set(THALWEG_PYTHON "${Python_EXECUTABLE}")
  endif()
  if(NOT THALWEG_PYTHON)
    find_program(THALWEG_PYTHON NAMES python3 python PATHS "${CMAKE_CURRENT_SOURCE_DIR}/.venv/bin" NO_DEFAULT_PATH)
  endif()
  if(NOT THALWEG_PYTHON)
    find_program(THALWEG_PYTHON NAMES python3 REQUIRED)
  endif()
  execute_process(
    COMMAND "${THALWEG_PYTHON}" -c "import pyarrow as p; print(p.get_include(), p.get_library_dirs()[0], p.__version__, sep=';')"
    OUTPUT_VARIABLE wheel OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "No pyarrow in ${THALWEG_PYTHON}: run tools/setup.sh, or give -DArrow_DIR=...")
  endif()
  list(GET wheel 0 THALWEG_ARROW_INCLUDE_DIR)
  list(GET wheel 1 THALWEG_ARROW_LIBRARY_DIR)
  list(GET wheel 2 version)
  string(REGEX MATCH "^[0-9]+" major "${version}")
  if(NOT major EQUAL 26)
    message(FATAL_ERROR "Arrow 26 is needed; the pyarrow wheel of ${THALWEG_PYTHON} is ${version}")
  endif()
  # A wheel is built by an environment of its own, in a folder that no compiler's cache has seen: what is the same in the
  # project's own is taken from there.
  file(GLOB own "${CMAKE_CURRENT_SOURCE_DIR}/.venv/lib/python*/site-packages/pyarrow-${version}.dist-info")
  if(SKBUILD AND own)
    get_filename_component(own "${own}" DIRECTORY)
    set(THALWEG_ARROW_INCLUDE_DIR "${own}/pyarrow/include")
    set(THALWEG_ARROW_LIBRARY_DIR "${own}/pyarrow")
  endif()
  target_include_directories(thalweg_arrow SYSTEM INTERFACE "${THALWEG_ARROW_INCLUDE_DIR}")
  # The wheel's libparquet exports the OpenSSL that it was built with. The system's goes before it, or libcurl's and
  # Python's TLS would call into that: another version, whose state they do not share.
  find_package(OpenSSL REQUIRED)
  target_link_libraries(thalweg_arrow INTERFACE -Wl,--push-state,--no-as-needed ${OPENSSL_LIBRARIES} -Wl,--pop-state)
  foreach(name arrow arrow_compute arrow_s3 parquet)
    target_link_libraries(thalweg_arrow INTERFACE "${THALWEG_ARROW_LIBRARY_DIR}/lib${name}.so.2600")
  endforeach()
endif()
