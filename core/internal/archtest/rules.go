package archtest

import "strings"

const (
	module = "github.com/mooncake-go/mooncake/"
	sdk    = module + "sdk/"
)

// rule forbids imports. A package that it applies to may import only the packages that allow
// accepts.
type rule struct {
	name string
	// why says what the rule protects; it is shown with a violation.
	why string
	// applies selects the importing packages, by import path below the module.
	applies func(pkg string) bool
	// allow decides about a direct import of such a package.
	allow func(pkg, imported string) bool
}

// floors orders the packages of core from the ground up. A package imports lower floors only, never
// its neighbours on the same floor. The ground floor is an exception, see downwards.
var floors = [][]string{
	{"core/config", "core/model", "core/cells", "core/certs", "core/ledger", "core/vault", "core/sealkeys", "core/internal"},
	{"core/pluginhost", "core/topology", "core/observe", "core/ha"},
	{"core/metadata", "core/memory"},
	{"core/transfer", "core/doctor", "core/tier"},
	{"core/master", "core/store"},
	{"core/api", "core/bench"},
	{"core/app"},
	{"core/bindings"},
}

// contracts are the folders of the sdk whose dependencies every author of a plugin inherits.
var contracts = []string{
	"sdk/plugin", "sdk/transport", "sdk/alloc", "sdk/evict", "sdk/tier", "sdk/errs", "sdk/security", "sdk/x/advice", "sdk/x/slotindex", "sdk/internal/seal",
}

// beside are the wires and the conformance suites of the kinds. The author of a plugin links the
// wires through sdk/serve only, and the suites in tests.
var beside = []string{
	"sdk/transport/transporttest", "sdk/alloc/alloctest", "sdk/evict/evicttest", "sdk/tier/tiertest",
	"sdk/transport/transportwire", "sdk/alloc/allocwire", "sdk/evict/evictwire", "sdk/tier/tierwire",
}

func rules() []rule {
	return []rule{
		{
			name:    "contracts use the standard library only",
			why:     "a plugin author inherits every dependency of the contracts",
			applies: func(pkg string) bool { return in(contracts...)(pkg) && !in(beside...)(pkg) },
			allow: func(pkg, imp string) bool {
				return std(imp) || under(imp, sdk+"plugin") || under(imp, sdk+"errs") || under(imp, sdk+"internal/seal") ||
					(under(pkg, "sdk/security/securitytest") && imp == sdk+"security") ||
					(under(pkg, "sdk/evict/ranked") && (imp == sdk+"evict" || imp == sdk+"x/slotindex")) ||
					(in("sdk/transport/pathkit", "sdk/transport/regionkit", "sdk/transport/grant")(pkg) && imp == sdk+"transport")
			},
		},
		{
			name:    "sdk does not know the core",
			why:     "sdk is what third parties import; it must build without the rest",
			applies: in("sdk"),
			allow: func(_, imp string) bool {
				return !strings.HasPrefix(imp, module) || strings.HasPrefix(imp, sdk)
			},
		},
		{
			name:    "sdk stays light",
			why:     "no cgo, quic, etcd, koanf or fx reaches the author of a plugin",
			applies: in("sdk"),
			allow: func(_, imp string) bool {
				return imp != "C" && !any3p(imp, "github.com/quic-go", "go.etcd.io", "github.com/knadh/koanf", "go.uber.org/fx", "go.uber.org/dig")
			},
		},
		{
			name:    "plugins use the sdk, nothing of the core, and not each other",
			why:     "a built-in plugin is written exactly as a third party would write it",
			applies: in("plugins"),
			allow: func(pkg, imp string) bool {
				return !strings.HasPrefix(imp, module) || strings.HasPrefix(imp, sdk) || under(imp, module+pluginDir(pkg))
			},
		},
		{
			name: "only the built-in list links plugins",
			why:  "the core must not know which plugins exist",
			applies: func(p string) bool {
				return !under(p, "plugins") && !under(p, "cmd/mooncake/builtin") && !under(p, "test/kitscore")
			},
			allow: func(_, imp string) bool { return !strings.HasPrefix(imp, module+"plugins/") },
		},
		{
			name:    "packages of the core import downwards",
			why:     "every package can be built and tested without its neighbours, which core/app connects through interfaces",
			applies: in("core"),
			allow:   downwards,
		},
		{
			name:    "koanf only in core/config",
			why:     "only one package knows where a setting comes from",
			applies: func(p string) bool { return !under(p, "core/config") },
			allow:   func(_, imp string) bool { return !any3p(imp, "github.com/knadh/koanf") },
		},
		{
			name:    "go-plugin only in sdk/wire, sdk/serve and core/pluginhost/launch",
			why:     "the rest must not be able to tell a subprocess from an object",
			applies: func(p string) bool { return !in("sdk/wire", "sdk/serve", "core/pluginhost/launch")(p) },
			allow:   func(_, imp string) bool { return !any3p(imp, "github.com/hashicorp/go-plugin") },
		},
		{
			name: "cgo only in the verbs binding and at the edge of the C library",
			why:  "everything else builds with CGO_ENABLED=0",
			applies: func(p string) bool {
				return !under(p, "plugins/transport-rdma/internal/verbs") && p != "cmd/libmooncake"
			},
			allow: func(_, imp string) bool { return imp != "C" },
		},
	}
}

// downwards allows imports of lower floors and within the package's own tree.
func downwards(pkg, imp string) bool {
	rel, ours := strings.CutPrefix(imp, module)
	if !ours || !under(rel, "core") {
		return true
	}
	pf, pr := floor(pkg)
	imf, imr := floor(rel)
	if pr == imr {
		return true
	}
	if pf < 0 || imf < 0 {
		return false // A new package needs a floor.
	}
	// The ground floor has data and helpers: its packages may use each other.
	return imf < pf || (imf == 0 && pf == 0)
}

// floor returns the index of a package's floor, and the entry of floors that contains the package.
func floor(pkg string) (int, string) {
	for i, dirs := range floors {
		for _, r := range dirs {
			if under(pkg, r) {
				return i, r
			}
		}
	}
	return -1, pkg
}

func in(dirs ...string) func(string) bool {
	return func(pkg string) bool {
		for _, r := range dirs {
			if under(pkg, r) {
				return true
			}
		}
		return false
	}
}

func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func any3p(imp string, modules ...string) bool {
	for _, m := range modules {
		if under(imp, m) {
			return true
		}
	}
	return false
}

func std(imp string) bool {
	first, _, _ := strings.Cut(imp, "/")
	return !strings.Contains(first, ".") && imp != "C"
}

// pluginDir returns plugins/<kind>-<name> of a package below it.
func pluginDir(pkg string) string {
	parts := strings.SplitN(pkg, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}
