/* The module mooncake._native; _native.pyi says what it promises. */
#include "native.h"

METHOD(library_file, 0) {
  (void)a;
  const char *path = library_path();
  return path ? PyUnicode_DecodeFSDefault(path) : PyUnicode_FromString("");
}

METHOD(loaded, 0) {
  (void)a;
  return PyBool_FromLong(library_if_loaded() != NULL);
}

METHOD(last_error, 1) {
  mck_handle h;
  if (!to_handle(a[0], &h)) return NULL;
  const library *lib = library_left_behind() ? library_need() : library_if_loaded();
  if (!lib) return PyErr_Occurred() ? NULL : PyUnicode_FromString("");
  mck_blob why;
  UNLOCKED(why = lib->last_error(h));
  return str_of(lib, why);
}

METHOD(close_all, 0) {
  (void)a;
  const library *lib = library_if_loaded();
  if (lib) UNLOCKED(lib->close_all());
  Py_RETURN_NONE;
}

PyMethodDef library_methods[] = {
    {"library", (PyCFunction)(void (*)(void))library_file, METH_FASTCALL, "library() -> str\n\nThe path of libmooncake.so."},
    METHOD_ENTRY(loaded, "loaded() -> bool\n\nWhether this process has loaded the library and can use it."),
    METHOD_ENTRY(last_error, "last_error(handle) -> str"),
    METHOD_ENTRY(close_all, "close_all() -> None"),
    {NULL, NULL, 0, NULL},
};

static bool add_functions(PyObject *module) {
  PyMethodDef *all[] = {library_methods, store_methods, replica_methods, move_methods, session_methods, engine_methods, notify_methods, memory_methods};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (PyModule_AddFunctions(module, all[i]) < 0) return false;
  return true;
}

PyMODINIT_FUNC PyInit__native(void) {
  static PyModuleDef def = {
      .m_base = PyModuleDef_HEAD_INIT,
      .m_name = "mooncake._native",
      .m_doc = "What the classes of this package call in libmooncake.so, which the first call loads.",
      .m_size = -1, /* one library a process */
  };
  PyObject *module = PyModule_Create(&def);
#ifdef Py_GIL_DISABLED /* The interpreter would switch the GIL on. What is shared here is made at import or is atomic. */
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  if (module && library_path() && buffer_add_type(module) && replica_add_type(module) && add_functions(module) && PyModule_AddIntConstant(module, "PUT", MCK_PUT) == 0 &&
      PyModule_AddIntConstant(module, "UPSERT", MCK_UPSERT) == 0 && PyModule_AddIntConstant(module, "MAY_PREFER_NODE", MCK_MAY_PREFER_NODE) == 0)
    return module;
  Py_XDECREF(module);
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "the folder of mooncake._native cannot be found out");
  return NULL;
}
