package config

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/config/internal/upstream"
)

// Role is what a process is. It decides which flags there are and which of upstream's names apply; every role reads all sections.
type Role string

// The roles. RoleService is RoleStore with the flags of upstream's store
// service in place of mooncake_client's: --port is that of the REST service. RoleClient
// differs from RoleStore only in contributing no memory by default. RoleAll is for commands
// that are none of the others, such as `config check` and `demo`.
const (
	RoleMaster   Role = "master"
	RoleMetadata Role = "metadata"
	RoleStore    Role = "store"
	RoleService  Role = "service"
	RoleClient   Role = "client"
	RoleAll      Role = "all"
)

// Roles lists the roles.
func Roles() []Role {
	return []Role{RoleMaster, RoleMetadata, RoleStore, RoleService, RoleClient, RoleAll}
}

// section is the one whose settings are flags without a prefix.
func (r Role) section() string {
	switch r {
	case RoleMaster, RoleMetadata:
		return string(r)
	case RoleStore, RoleService, RoleClient:
		return "store"
	default:
		return ""
	}
}

func (r Role) node() bool { return r == RoleStore || r == RoleService || r == RoleClient }

// Program is the name of upstream's program in this role, after which
// log files are named; that of a role that it does not have begins with mooncake_.
func (r Role) Program() string {
	switch {
	case r == RoleMetadata:
		return "mooncake_http_metadata_server"
	case r.program() != "":
		return r.program()
	default:
		return "mooncake_" + string(r)
	}
}

// program is upstream's program in this role.
func (r Role) program() string {
	switch {
	case r == RoleMaster:
		return "mooncake_master"
	case r == RoleService:
		return "mooncake_store_service"
	case r.node():
		return "mooncake_client"
	default:
		return ""
	}
}

func (r Role) upstreamFlags() []upstream.Name {
	switch {
	case r == RoleMaster:
		return masterFlags()
	case r == RoleService:
		return serviceFlags()
	case r.node():
		return nodeFlags()
	default:
		return nil
	}
}

// The tables of several verbs, made once. They must not be changed.
var (
	masterFlags = sync.OnceValue(func() []upstream.Name {
		return upstream.Distinct(upstream.MasterFlags(), upstream.ProcessFlags())
	})
	serviceFlags = sync.OnceValue(func() []upstream.Name {
		return upstream.Distinct(upstream.ServiceFlags(), upstream.ClientFlags(), upstream.ProcessFlags())
	})
	nodeFlags = sync.OnceValue(func() []upstream.Name {
		return upstream.Distinct(upstream.ClientFlags(), upstream.ProcessFlags())
	})
)

// upstreamKeys returns the keys of upstream's file.
func (r Role) upstreamKeys() []upstream.Name {
	var out []upstream.Name
	switch {
	case r == RoleMaster:
		out = upstream.MasterFlags()
		for key, flag := range upstream.MasterFileNames() {
			n, _ := upstream.Find(out, flag) // a test checks that it exists
			n.Name = key
			out = append(out, n)
		}
	case r.node():
		out = upstream.Distinct(upstream.ServiceKeys(), upstream.ClientFlags())
	}
	return dropFileNames(out)
}

// isFileFlag reports the flags that name the file; they mean nothing inside it.
func isFileFlag(name string) bool { return name == "config_path" || name == "conf_path" }

func dropFileNames(names []upstream.Name) []upstream.Name {
	out := names[:0:0]
	for _, n := range names {
		if !isFileFlag(n.Name) {
			out = append(out, n)
		}
	}
	return out
}

// usual are upstream's names whose defaults count for a process that
// was started under its name.
func (r Role) usual() []upstream.Name {
	if r == RoleService {
		return upstream.Distinct(upstream.ServiceFlags(), upstream.ServiceKeys())
	}
	return r.upstreamFlags()
}

func (r Role) readers() upstream.Reader {
	switch {
	case r == RoleMaster:
		return upstream.Master
	case r == RoleMetadata:
		return upstream.Metadata
	case r.node():
		return upstream.Node
	default:
		return upstream.Everyone
	}
}
