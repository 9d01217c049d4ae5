// Package find finds the programs of plugins, reads their manifests, and admits those that may
// run. It runs nothing.
//
//	finder, err := find.New(find.Options{Dirs: dirs, Lock: lock})
//	for _, e := range finder.Find(plugin.ID{}) { ... }    // all, also the refused ones
//	e, image, err := finder.Admit(ctx, e.Home, e.ID(), logger)
//
// A program is named mooncake-plugin-<kind>-<name>. It is searched in the given folders only,
// never in $PATH or the working directory, and the first match wins. A file or folder that other
// users may change is refused, see package trust: it is listed with state failed and the reason.
// The manifest is read out of the file.
//
// Admit checks a program again at the moment of its start. It checks a copy of the bytes in
// memory, and the copy is what runs: a change of the file between the check and the start has no
// effect.
//
// Install, Uninstall and ReadProgram are for programs that manage such folders.
package find
