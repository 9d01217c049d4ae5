package verbs

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// GIDs returns the entries of a port's table that are not empty, in the order of the index.
func (c *Context) GIDs(port int) ([]GID, error) {
	p, err := c.QueryPort(port)
	if err != nil {
		return nil, err
	}
	if err = c.refs.hold(); err != nil {
		return nil, err
	}
	if c.lib.feat.GIDTable {
		list, errno := sysGIDTable(c.h, uint32(port), p.GIDs*max(1, c.attr.Ports))
		if errno == 0 {
			return list, c.refs.drop()
		}
		if errno != int32(syscall.EOPNOTSUPP) {
			return nil, errors.Join(c.fail("ibv_query_gid_table", errno, portName(port)), c.refs.drop())
		}
	}
	if err = c.refs.drop(); err != nil {
		return nil, err
	}
	var list []GID
	for i := range p.GIDs {
		g, err := c.GID(port, i)
		if err != nil {
			return nil, err
		}
		if !g.Zero() {
			list = append(list, g)
		}
	}
	return list, nil
}

// GID returns one entry of a port's table, which may be empty (see GID.Zero).
func (c *Context) GID(port, index int) (GID, error) {
	if err := c.refs.hold(); err != nil {
		return GID{}, err
	}
	object := fmt.Sprintf("GID %d of port %d", index, port)
	if port < 1 || port > 255 || index < 0 {
		return GID{}, errors.Join(c.fail("ibv_query_gid", int32(syscall.EINVAL), object), c.refs.drop())
	}
	if c.lib.feat.GIDTable {
		g, errno := sysGIDEx(c.h, uint32(port), uint32(index))
		switch errno {
		case 0:
			return g, c.refs.drop()
		case int32(syscall.ENODATA):
			return GID{Index: index}, c.refs.drop() // The library's word for an empty entry.
		case int32(syscall.EOPNOTSUPP):
		default:
			return GID{}, errors.Join(c.fail("ibv_query_gid_ex", errno, object), c.refs.drop())
		}
	}
	addr, errno := sysGID(c.h, uint8(port), index)
	g := GID{Addr: addr, Index: index}
	if errno == 0 && !g.Zero() {
		fillFromSysfs(&g, c.info.SysfsPath, port)
	}
	return g, errors.Join(c.fail("ibv_query_gid", errno, object), c.refs.drop())
}

// fillFromSysfs asks the kernel for fields that old libraries do not report. Fields that it does
// not find stay zero: type IB, no interface.
func fillFromSysfs(g *GID, device string, port int) {
	attrs := filepath.Join(device, "ports", strconv.Itoa(port), "gid_attrs")
	if b, err := os.ReadFile(filepath.Join(attrs, "types", strconv.Itoa(g.Index))); err == nil {
		switch strings.TrimSpace(string(b)) {
		case "RoCE v2":
			g.Type = GIDRoCEv2
		case "IB/RoCE v1":
			g.Type = GIDRoCEv1
		}
	}
	if b, err := os.ReadFile(filepath.Join(attrs, "ndevs", strconv.Itoa(g.Index))); err == nil {
		if ifi, err := net.InterfaceByName(strings.TrimSpace(string(b))); err == nil {
			g.NetIndex = ifi.Index
		}
	}
}
