// Package pluginhost knows which plugins exist and where each one lives, and opens them: linked
// into this program, or in a supervised process of their own. The rest of the core cannot tell
// the two apart.
//
//	catalog, err := plugins.New(builtins, plugins.Options{
//		Dirs: append(cfg.Plugins.Dirs, plugins.StandardDirs(os.Getenv)...), Logger: logger,
//	})
//	for _, e := range catalog.List() { ... }        // runs nothing
//
//	policy, err := catalog.OpenEvict(ctx, plugin.ID{Kind: "evict", Name: "lru"},
//		plugins.Spec{Mode: plugins.ModeAuto, Config: settings},
//		plugins.EvictOptions{Replay: refill})
//	err = policy.Start(ctx, host)                   // starts the process of a subprocess plugin
//	...
//	err = policy.Stop(ctx)
//	err = catalog.Close(ctx)                        // stops the plugins that are still open
//
// # Parts
//
//	trust    whose programs may run: owners of files, the lock file
//	find     looks for programs, reads their manifests, admits what may run
//	launch   runs one process: its bytes, environment, limits, connection
//	relay    keeps the state that the process of a transport needs
//	conform  checks a plugin of a catalog against its contract
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
// When a plugin process ends, the supervisor restarts it with growing pauses: it configures and
// starts the new process and resyncs it through Replay. Meanwhile calls fail at once with
// RPCFail, class transient-peer. After too many failures within a window the state is failed,
// with the last lines that the process wrote, and calls fail with class local-device until
// Reload. A call that the process does not answer in time fails with RPCTimeout. After several
// timeouts in a row, of calls or of pings, the supervisor kills and restarts the process.
//
// Calls fail from the end of the process until Replay has returned. The supervisor does not
// record them, so the caller should note failed calls and replay them too. At a Reload no call
// fails, see EvictOptions.
//
// Package relay keeps the state that a transport's process needs: see OpenTransport.
//
// # Errors
//
// What OpenX and Start return is an *OpenError, which names the plugin and the stage at
// which it failed, so that a caller can go on without a plugin that is not required.
package pluginhost
