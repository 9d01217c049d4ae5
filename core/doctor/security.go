package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
)

// openDoors returns what the role listens on, with the port, 0 for any.
func (e *exam) openDoors() (names []config.Door, ports map[config.Door]int) {
	m, s := e.cfg.Master, e.cfg.Store
	ports = map[config.Door]int{}
	add := func(d config.Door, port int) {
		if !slices.Contains(names, d) {
			names, ports[d] = append(names, d), port
		}
	}
	all := e.role == config.RoleAll
	if all || e.role == config.RoleMaster {
		add(config.DoorRPC, m.RPCPort)
		add(config.DoorAdmin, m.MetricsPort)
		if m.EnableHTTPMetadataServer {
			add(config.DoorMetadata, m.HTTPMetadataServerPort)
		}
		if m.EnableHA {
			add(config.DoorFollow, m.HAFollowPort)
		}
		if m.EnableKVEvents {
			add(config.DoorKVEvents, 0)
		}
	}
	if e.role == config.RoleMetadata {
		add(config.DoorMetadata, e.cfg.Metadata.Port)
	}
	if e.node() || e.role == config.RoleService {
		add(config.DoorHandshake, 0)
		add(config.DoorData, 0)
		if s.EnableHTTPServer {
			add(config.DoorHealth, s.HTTPPort)
		}
		if s.RESTPort != 0 {
			add(config.DoorREST, s.RESTPort)
		}
		if s.EnableOffload {
			add(config.DoorOffload, s.OffloadPort)
		}
	}
	return names, ports
}

// security says how each door of the role is protected, and whether the certificates can be used.
func (e *exam) security(context.Context) Result {
	cfg := e.cfg.Security
	if !cfg.On() {
		return ok("security.mode is off: every machine that reaches the ports of the role can read, change and remove all objects")
	}
	d, err := doors.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return fail(err.Error(), "the role ends at its start", "correct the section security; docs/security.md explains it")
	}
	names, ports := e.openDoors()
	r := ok("security.mode is %s", cfg.Mode)
	if id, err := d.Keeper().Identity(); err == nil {
		r.Found += ", as " + id.String()
	}
	var plain []string
	for _, n := range names {
		at := "a free port"
		if p := ports[n]; p != 0 {
			at = fmt.Sprintf("port %d", p)
		}
		if cfg.Plain(n) {
			plain = append(plain, string(n))
		}
		r.Details = append(r.Details, fmt.Sprintf("%s: %s, %s", n, at, d.Protection(n)))
	}
	if len(plain) > 0 {
		r.Status, r.Why, r.Do = Warn, "who reaches "+strings.Join(plain, ", ")+" needs no certificate", "leave them out of security.plaintext where the release can protect them, or keep their ports closed to others"
	}
	return r
}
