package wire

import (
	"log/slog"
	"sync"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// serverHost is the plugin.Host of an object behind a Server: it keeps the latest health
// for the calls that watch it.
type serverHost struct {
	logger *slog.Logger
	closed chan struct{}

	mu      sync.Mutex
	once    sync.Once
	process security.Settings
	health  plugin.Health
	version uint64        // counts reports, from 1
	changed chan struct{} // closed and replaced by every report
}

func newServerHost(l *slog.Logger) *serverHost {
	return &serverHost{
		logger: l, closed: make(chan struct{}), version: 1,
		health: plugin.Health{State: plugin.StateAvailable}, changed: make(chan struct{}),
	}
}

// Logger implements plugin.Host.
func (h *serverHost) Logger() *slog.Logger { return h.logger }

// Report implements plugin.Host.
func (h *serverHost) Report(health plugin.Health) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.set(health)
}

// Security implements security.Host.
func (h *serverHost) Security() security.Settings {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.process
}

// secure sets what Security returns.
func (h *serverHost) secure(s security.Settings) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.process = s
}

func (h *serverHost) set(health plugin.Health) {
	h.health = health
	h.version++
	close(h.changed)
	h.changed = make(chan struct{})
}

// started reports ok, unless the object said something of its own during Start.
func (h *serverHost) started() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.health.State == plugin.StateStarting {
		h.set(plugin.Health{State: plugin.StateOK})
	}
}

func (h *serverHost) latest() (health plugin.Health, version uint64, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.health, h.version, h.changed
}

func (h *serverHost) close() { h.once.Do(func() { close(h.closed) }) }
