// Package find looks for the programs of plugins, reads what they say of themselves, and
// admits what may run. It runs nothing.
//
//	finder, err := find.New(find.Options{Dirs: dirs, Lock: lock})
//	for _, e := range finder.Find(plugin.ID{}) { ... }    // all, also the refused ones
//	e, image, err := finder.Admit(ctx, e.Home, e.ID(), logger)
//
// A program is named mooncake-plugin-<kind>-<name>. It is looked for in the given folders,
// the first one wins; never in $PATH or the working directory. A file or folder that others
// may change is refused, see package trust: listed with state failed and the reason. The
// manifest is read out of the file.
//
// Admit looks once more at the moment of a start, at a copy of the bytes in memory, and it is
// the copy that is run: who changes the file between the check and the start changes nothing.
//
// Install, Uninstall and ReadProgram are for who keeps such folders.
package find
