package store

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Bounds of the sizes of the dict form of setup, in bytes.
const (
	leastSize     = 1024
	mostBuffer    = 1 << 40
	usualSize     = 16 << 20
	usualHTTPPort = 9300
)

// arguments converts the arguments of setup to flags of a client. warnings name ignored arguments.
// It returns InvalidParams for invalid arguments.
func arguments(given map[string]string, positional bool) (flags map[string]string, warnings []string, err error) {
	a := argumentReader{given: given, positional: positional, flags: map[string]string{}}
	a.needed("local_hostname", "local_hostname")
	a.needed("metadata_server", "metadata_server")
	a.size("global_segment_size", "global_segment_size", 0)
	a.size("local_buffer_size", "local_buffer_size", mostBuffer)
	a.text("protocol", "protocol", true)
	a.text(a.spelled("rdma_devices", "device_name"), "device_names", false)
	a.text(a.spelled("master_server_addr", "master_server_address"), "master_server_address", true)
	a.text("tenant_id", "tenant_id", true)
	a.wait()
	a.httpServer()
	a.offload()
	return a.flags, a.warnings, a.err
}

// argumentReader reads arguments one by one and keeps the first error.
type argumentReader struct {
	given      map[string]string
	positional bool
	flags      map[string]string
	warnings   []string
	err        error
}

func (a *argumentReader) bad(key, format string, args ...any) {
	if a.err == nil {
		a.err = errs.New(errs.InvalidParams, key, format, args...)
	}
}

func (a *argumentReader) needed(key, flag string) {
	if a.given[key] == "" {
		a.bad(key, "it is missing or empty")
	}
	a.flags[flag] = a.given[key]
}

// spelled returns the name under which a setting was given. Inference engines pass their own
// configuration to the dict form, where two settings have other names. If both are given, key
// applies.
func (a *argumentReader) spelled(key, other string) string {
	if _, ok := a.given[key]; ok || a.positional {
		return key
	}
	return other
}

// text copies a text. With usual an empty text keeps the default.
func (a *argumentReader) text(key, flag string, usual bool) {
	if v, ok := a.given[key]; ok && (v != "" || !usual) {
		a.flags[flag] = v
	}
}

func (a *argumentReader) size(key, flag string, most uint64) {
	v, ok := a.given[key]
	n, err := uint64(usualSize), error(nil)
	switch {
	case a.positional:
		n, err = strconv.ParseUint(v, 10, 64)
	case ok:
		n, err = parseSize(v)
	}
	switch {
	case err != nil:
		a.bad(key, "%q is no size: %w", v, err)
	case !a.positional && n > 0 && n < leastSize:
		a.bad(key, "it is %d bytes; the least is %d, or 0 for none", n, leastSize)
	case most > 0 && n > most:
		a.bad(key, "it is %d bytes; the most is %d", n, most)
	}
	a.flags[flag] = strconv.FormatUint(n, 10)
}

// waitTime is the argument that bounds the wait for the master.
const waitTime = "max_wait_time"

// wait reads a time, in seconds where it has no unit.
func (a *argumentReader) wait() {
	v, ok := a.given[waitTime]
	if !ok {
		return
	}
	d, err := time.ParseDuration(v)
	if s, e := strconv.ParseFloat(v, 64); e == nil && s >= 0 && s <= longestWait.Seconds() {
		d, err = time.Duration(s*float64(time.Second)), nil
	}
	if err != nil || d < 0 || d > longestWait {
		a.bad(waitTime, "%q is no time from 0 to 86400 seconds", v)
	}
	a.flags[waitTime] = d.String()
}

// longestWait is the most that store.max_wait_time may be.
const longestWait = 24 * time.Hour

func (a *argumentReader) httpServer() {
	on := a.flag("enable_client_http_server")
	a.flags["enable_http_server"] = strconv.FormatBool(on)
	port := a.given["client_http_port"]
	if !on || port == "" {
		return
	}
	if n, err := strconv.Atoi(strings.TrimSpace(port)); err != nil || n < 1 || n > 65535 {
		a.bad("client_http_port", "%q is not a port from 1 to 65535", port)
	}
	a.flags["http_port"] = strings.TrimSpace(port)
}

// offload reads whether the node has storage tiers. Without a path that of the environment applies.
func (a *argumentReader) offload() {
	a.flags["enable_offload"] = strconv.FormatBool(a.flag("enable_ssd_offload"))
	a.text("ssd_offload_path", "ssd_offload_path", true)
}

// flag reads a bool. An invalid value is false, with a warning.
func (a *argumentReader) flag(key string) bool {
	v := a.given[key]
	switch strings.ToLower(strings.TrimSpace(v)) {
	case "true", "1", "yes", "on", "enable":
		return true
	case "", "false", "0", "no", "off", "disable", "none":
	default:
		a.warnings = append(a.warnings, fmt.Sprintf("%s is %q, which is neither true nor false; it is taken as false", key, v))
	}
	return false
}

// parseSize reads a number, which may have a fraction, and a unit: B, K, KB, M, MB, G, GB, T
// or TB, each 1024 of the one before.
func parseSize(text string) (uint64, error) {
	text = strings.TrimSpace(text)
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ%")
	unit := strings.ToUpper(text[len(number):])
	if unit == "INFINITE" && number == "" {
		return 0, fmt.Errorf("memory without an end cannot be contributed; give a size such as 16GB")
	}
	factor := map[string]float64{"": 1, "B": 1, "K": 1 << 10, "KB": 1 << 10, "M": 1 << 20, "MB": 1 << 20, "G": 1 << 30, "GB": 1 << 30, "T": 1 << 40, "TB": 1 << 40}[unit]
	if factor == 0 {
		return 0, fmt.Errorf("the unit %q is none of B, K, KB, M, MB, G, GB, T, TB", text[len(number):])
	}
	number = strings.TrimSpace(number)
	if n, err := strconv.ParseUint(number, 10, 64); err == nil && factor == 1 {
		return n, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a number", number)
	case !(f >= 0) || f*factor >= 1<<63:
		return 0, fmt.Errorf("it must be 0 or more, and below 8 EiB")
	}
	return uint64(f * factor), nil
}
