package transports

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// lifeBugs are bugs of start and stop, and of access to regions and peers.
func lifeBugs() map[string]bug {
	return map[string]bug{
		"same-incarnation": {"every start has the same incarnation", one("incarnations differ"), func(b *bent) {
			b.endpoint = func() transport.Endpoint {
				return transport.Endpoint{Blob: b.Transport.Endpoint().Blob, Incarnation: 7}
			}
		}},
		"stop-hangs": {"Stop does not return", one("start and stop", "stop twice and at once"), func(b *bent) {
			b.stop = func(ctx context.Context) error {
				if b.Transport.Endpoint().Incarnation == 0 {
					return b.Transport.Stop(ctx)
				}
				select {}
			}
		}},
		"stop-fails": {"Stop of a transport that runs is an error", one("start and stop"), func(b *bent) {
			b.stop = func(ctx context.Context) error {
				return errors.Join(b.Transport.Stop(ctx), errors.New("the flux is not in order"))
			}
		}},
		"rights-ignored": {"peers may read and write every region", one("rights of peers"), func(b *bent) {
			b.register = func(ctx context.Context, r transport.Region) (transport.Key, error) {
				r.Access = transport.AccessRemote
				return b.Transport.Register(ctx, r)
			}
		}},
		"dials-noise": {"Dial accepts an endpoint that is malformed", one("dial refuses"), func(b *bent) {
			b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
				if len(e.Blob) == 200 {
					e = b.Transport.Endpoint()
				}
				return b.Transport.Dial(ctx, e)
			}
		}},
		"imports-noise": {"Import accepts a key that is malformed", one("import refuses"), paths(func(p *bentPath) {
			p.imports = func(ctx context.Context, k transport.Key) (transport.RemoteID, error) {
				if len(k) == 100 {
					return 1, nil
				}
				return p.inner.Import(ctx, k)
			}
		})},
		"not-itself": {"a transport does not dial itself", one("a transport reaches itself"), func(b *bent) {
			b.dial = func(ctx context.Context, e transport.Endpoint) (transport.Path, error) {
				if e.Incarnation == b.Transport.Endpoint().Incarnation {
					return nil, errs.New(errs.InvalidParams, "dial", "that is this transport")
				}
				return b.Transport.Dial(ctx, e)
			}
		}},
	}
}

// leakBugs are bugs that keep resources for good.
func leakBugs() map[string]bug {
	closes := func(leak func()) func(*bent) {
		return paths(func(p *bentPath) {
			var once atomic.Bool
			p.close = func(ctx context.Context) error {
				if once.CompareAndSwap(false, true) {
					leak()
				}
				return p.inner.Close(ctx)
			}
		})
	}
	found := one("leaks of paths and regions")
	return map[string]bug{
		"leaks-goroutine": {"each path leaves a goroutine behind", found, closes(func() { go func() { select {} }() })},
		"leaks-descriptor": {"each path leaves a descriptor behind", found, closes(func() {
			fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY, 0)
			_, _ = fd, err // The check finds no leak where it failed.
		})},
		"leaks-mapping": {"each path leaves a mapping of a file behind", found, closes(func() {
			fd, err := syscall.Open("/proc/self/exe", syscall.O_RDONLY, 0)
			if err != nil {
				return
			}
			_, _ = syscall.Mmap(fd, 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_PRIVATE)
			_ = syscall.Close(fd)
		})},
		"leaks-memory": {"each path leaves 2 MiB of memory behind", found, closes(func() {
			b := make([]byte, 2<<20)
			for i := range b {
				b[i] = 1
			}
			kept = append(kept, b)
		})},
	}
}

// kept is memory that leaked.
var kept [][]byte

// settingBugs are differences between the manifest and what the plugin accepts; see Config.
func settingBugs() map[string]bug {
	found, told := one("settings"), one("manifest and program")
	return map[string]bug{
		"program-renamed": {"the program calls a setting differently than the manifest", told, func(*bent) {}},
		"program-default": {"the program has another default than the manifest", told, func(*bent) {}},
		"program-minimum": {"the program has a higher minimum than the manifest", told, func(*bent) {}},
		"program-maximum": {"the program has a lower maximum than the manifest", told, func(*bent) {}},
		"setting-renamed": {"the manifest has a setting that the plugin does not know", found, func(*bent) {}},
		"setting-bound":   {"the plugin refuses the largest value that the manifest allows", found, func(*bent) {}},
		"setting-open":    {"the plugin accepts a value above the largest of the manifest", found, func(*bent) {}},
	}
}
