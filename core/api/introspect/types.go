package introspect

import (
	"context"
	"time"

	"github.com/mooncake-go/mooncake/core/pluginhost"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// API is the version of what is served. It changes when something goes or means something
// else; more fields do not change it.
const API = 1

// Process says who serves a socket.
type Process struct {
	API     int       `json:"api" yaml:"api"`
	Role    string    `json:"role" yaml:"role"`
	PID     int       `json:"pid" yaml:"pid"`
	Version string    `json:"version" yaml:"version"`
	Started time.Time `json:"started" yaml:"started"`
	// Socket is where it is served; a client fills it in.
	Socket string `json:"socket,omitempty" yaml:"socket,omitempty"`
}

// Plugins is what one process has in use, oldest first.
type Plugins struct {
	Process Process               `json:"process"`
	Plugins []pluginhost.Instance `json:"plugins"`
}

// Reloaded is a plugin before and after it was loaded anew.
type Reloaded struct {
	Before pluginhost.Instance `json:"before" yaml:"before"`
	After  pluginhost.Instance `json:"after" yaml:"after"`
}

// Host is the process as the socket sees it. *pluginhost.Catalog implements it.
type Host interface {
	// Instances returns what is in use, oldest first.
	Instances() []pluginhost.Instance
}

// Reloader is a Host whose plugins can be replaced.
type Reloader interface {
	// Reload replaces the process of a plugin without losing a call. It returns when the
	// new process does the work, with its instance.
	Reload(ctx context.Context, id plugin.ID) (pluginhost.Instance, error)
}
