package wire

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// securityOf returns what a host says of the protection of its process, nil for nothing.
func securityOf(h plugin.Host) *pluginv1.Security {
	s := security.OfHost(h)
	if s.Mode == "" || s.Mode == security.ModeOff {
		return nil
	}
	return &pluginv1.Security{Mode: string(s.Mode), Ca: s.Files.CA, Cert: s.Files.Cert, Key: s.Files.Key, Allow: s.Allow, LookEveryMs: s.Every.Milliseconds()}
}

// securityFrom reads it on the other side.
func securityFrom(m *pluginv1.Security) security.Settings {
	return security.Settings{
		Mode: security.Mode(m.GetMode()), Allow: m.GetAllow(), Every: time.Duration(m.GetLookEveryMs()) * time.Millisecond,
		Files: security.Files{CA: m.GetCa(), Cert: m.GetCert(), Key: m.GetKey()},
	}
}
