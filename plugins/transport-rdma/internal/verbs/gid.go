package verbs

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/mooncake-go/mooncake/plugins/transport-rdma/internal/gid"
)

// GIDs returns the entries of a port's table that are not empty, in the order of the index.
func (c *Context) GIDs(port int) (list []gid.Entry, err error) {
	p, err := c.QueryPort(port)
	if err != nil {
		return nil, err
	}
	err = c.refs.use(func() error {
		errno := int32(syscall.EOPNOTSUPP)
		if c.lib.has(featGIDTable) {
			list, errno = sysGIDTable(c.lib.h, c.h, uint32(port), p.GIDs*max(1, c.attr.Ports))
		}
		if errno != int32(syscall.EOPNOTSUPP) {
			return c.fail("ibv_query_gid_table", errno, fmt.Sprintf("port %d", port))
		}
		for i := range p.GIDs {
			g, err := c.GID(port, i)
			if err != nil {
				return err
			}
			if !g.GID.Zero() {
				list = append(list, g)
			}
		}
		return nil
	})
	return list, err
}

// GID returns one entry of a port's table, which may be empty (see gid.GID.Zero).
func (c *Context) GID(port, index int) (g gid.Entry, err error) {
	err = c.refs.use(func() error {
		object := fmt.Sprintf("GID %d of port %d", index, port)
		if port < 1 || port > 255 || index < 0 {
			return c.fail("ibv_query_gid", int32(syscall.EINVAL), object)
		}
		if c.lib.has(featGIDTable) {
			var errno int32
			g, errno = sysGIDEx(c.lib.h, c.h, uint32(port), uint32(index))
			switch errno {
			case int32(syscall.ENODATA): // The library's word for an empty entry.
				g = gid.Entry{Index: index}
				return nil
			case int32(syscall.EOPNOTSUPP):
			default:
				return c.fail("ibv_query_gid_ex", errno, object)
			}
		}
		addr, errno := sysGID(c.lib.h, c.h, uint8(port), index)
		g = gid.Entry{Index: index, GID: addr}
		if errno == 0 && !g.GID.Zero() {
			fillFromSysfs(&g, c.info.SysfsPath, port)
		}
		return c.fail("ibv_query_gid", errno, object)
	})
	return g, err
}

// fillFromSysfs asks the kernel for fields that old libraries do not report. Fields that it does
// not find stay zero: type InfiniBand, no interface.
func fillFromSysfs(g *gid.Entry, device string, port int) {
	attr := func(folder string) string {
		path := filepath.Join(device, "ports", strconv.Itoa(port), "gid_attrs", folder, strconv.Itoa(g.Index))
		text, _ := os.ReadFile(path) // Without the file it is empty.
		return strings.TrimSpace(string(text))
	}
	switch attr("types") {
	case "RoCE v2":
		g.Type = gid.RoCEv2
	case "IB/RoCE v1":
		g.Type = gid.RoCEv1
	}
	name := attr("ndevs")
	if _, err := net.InterfaceByName(name); err == nil {
		g.Netdev = name
	}
}

// netdev returns the name of the network interface with an index, or makes one up for an interface
// that this process does not see. It is empty for index 0, which means none.
func netdev(index int) string {
	if index == 0 {
		return ""
	}
	if i, err := net.InterfaceByIndex(index); err == nil {
		return i.Name
	}
	return "if" + strconv.Itoa(index)
}
