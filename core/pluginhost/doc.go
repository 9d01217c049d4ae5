// Package pluginhost knows which plugins there are and where each one lives, and makes them
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
// # Parts
//
//	trust    whose programs may run: owners of files, the lock file
//	find     looks for programs, reads their manifests, admits what may run
//	launch   runs one process: its bytes, environment, limits, connection
//	relay    what the process of a transport must know, kept here
//	conform  holds a plugin of a catalog to its contract
//
// This package itself is the catalog, opening, supervision and reload.
//
// # Finding
//
// A built-in plugin is taken first, then a program named mooncake-plugin-<kind>-<name> in
// the given folders, see package find.
//
// # Supervision
//
// A plugin process that ends is started again with growing pauses, configured, started
// and, through Replay, told what it must know; calls meanwhile fail at once with
// RPCFail, class transient-peer. Too many failures within a window end that: the state
// is failed, with the last lines that the process wrote, and calls fail with class
// local-device, until Reload. A call that the process does not answer in time is an
// RPCTimeout, and several in a row get the process killed and started again; so do
// questions whether it is there.
//
// When Replay begins, calls of others have been failing since the process ended; they
// succeed again after it returned. What happened in between is for the caller of Replay
// to know, so it should note failed calls and repeat them. At a Reload no call fails, see
// EvictOptions.
//
// What a transport's process must know is kept here, by package relay: see OpenTransport.
//
// # Errors
//
// What OpenX and Start return is an *OpenError, which names the plugin and the stage at
// which it failed, so that a caller can go on without a plugin that is not required.
package pluginhost
