// Package plugins knows which plugins there are and where each one lives, and makes them
// usable: linked into this program, or as a supervised process of its own. The rest of
// the core cannot tell the two apart.
//
//	catalog, err := plugins.New(builtins, plugins.Options{
//		Dirs: append(cfg.Plugins.Dirs, plugins.StandardDirs(os.Getenv)...), Logger: logger,
//	})
//	for _, e := range catalog.List() { ... }        // runs nothing
//
//	policy, err := catalog.OpenEvict(ctx, plugin.ID{Kind: "evict", Name: "lru"},
//		plugins.Spec{Mode: plugins.ModeAuto, Config: settings},
//		plugins.EvictOptions{Replay: refill})
//	err = policy.Start(ctx, host)                   // starts the process, if it is one
//	...
//	err = policy.Stop(ctx)
//	err = catalog.Close(ctx)                        // stops what is still open
//
// # Finding
//
// A plugin binary is named mooncake-plugin-<kind>-<name>. It is looked for in the given
// folders, the first one wins; never in $PATH or the working directory. A file or folder
// that group or others may write, or that belongs to somebody other than root or this
// user, is refused: listed with state failed and the reason, never run. The manifest is
// read out of the file without running it.
//
// # Supervision
//
// A plugin process that ends is started again with growing pauses, configured, started
// and, through Replay, told what it must know; calls meanwhile fail at once with
// RPCFail, class transient-peer. Too many failures within a window end that: the state
// is failed, with the last lines that the process wrote, and calls fail with class
// local-device. A call that the process does not answer in time is an RPCTimeout, and
// several in a row get the process killed and started again.
//
// When Replay begins, calls of others have been failing since the process ended; they
// succeed again after it returned. What happened in between is for the caller of Replay
// to know, so it should note failed calls and repeat them.
//
// # Errors
//
// What OpenX and Start return is an *OpenError, which names the plugin and the stage at
// which it failed, so that a caller can go on without a plugin that is not required.
package plugins
