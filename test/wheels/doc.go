// Package wheels holds the tests that run unmodified clients of kvcache-ai/Mooncake, from its
// published wheels, with a master of ours: set-up, every call, faults, pools in which the
// versions and our own programs are mixed, and random load. Contents are always compared. Random
// histories of calls are answered the same by our master and by the one of each wheel.
//
// Each version has a Python environment of its own, which scripts/interop-setup.sh makes the
// first time, in the folder mooncake-interop of the user's cache. Without wheels the tests are
// skipped, and they say why.
//
//	make interop               # everything, with a table; OUT=FILE for JSON
//	make interop MASTER=upstream   # the same checks on the master of each wheel, as a control
//	go test ./test/wheels -v   # the short form, as make test runs it
//
// The environment selects:
//
//   - MOONCAKE_INTEROP: full, as make interop sets it: all versions, a load of 10 minutes, and
//     a missing wheel is a failure.
//   - MOONCAKE_INTEROP_MASTER: ours (the default) or upstream.
//   - MOONCAKE_INTEROP_LOAD: how long the random load lasts, such as 1m.
//   - MOONCAKE_INTEROP_HISTORIES: how many random histories are compared for each version.
//   - MOONCAKE_INTEROP_OUT: a file to which the results are written, as a list of JSON objects.
//   - MOONCAKE_INTEROP_FOLDER: where the Python environments are.
//   - PYTHON: the interpreter that makes them, by default python3.
package wheels
