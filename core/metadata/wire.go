package metadata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// descriptorJSON is a descriptor as it is stored. Fields are in the order of their keys,
// which is how upstream writes objects; a nil pointer is left out.
type descriptorJSON struct {
	Buffers         []bufferJSON    `json:"buffers"`
	Devices         *[]deviceJSON   `json:"devices,omitempty"`
	Name            string          `json:"name"`
	PriorityMatrix  json.RawMessage `json:"priority_matrix,omitempty"`
	Protocol        json.RawMessage `json:"protocol"`
	RDMAServerName  string          `json:"rdma_server_name,omitempty"`
	ServerName      string          `json:"server_name,omitempty"` // nvmeof, in place of name
	TCPDataHost     string          `json:"tcp_data_host,omitempty"`
	TCPDataPort     *int            `json:"tcp_data_port"`
	TCPProtoVersion *int            `json:"tcp_proto_version"`
	Timestamp       string          `json:"timestamp"`
	Side            json.RawMessage `json:"x_mooncake_go,omitempty"`
}

type deviceJSON struct {
	GID  string `json:"gid"`
	LID  uint32 `json:"lid"`
	Name string `json:"name"`
}

type bufferJSON struct {
	Addr     uint64    `json:"addr"`
	Length   uint64    `json:"length"`
	LKey     *[]uint64 `json:"lkey,omitempty"`
	Name     string    `json:"name"`
	Protocol string    `json:"protocol,omitempty"`
	RKey     *[]uint64 `json:"rkey,omitempty"`
}

// encodeBuffer writes lists of keys, be they empty, where the protocol has keys.
func encodeBuffer(b Buffer, rdma bool) bufferJSON {
	j := bufferJSON{Addr: b.Addr, Length: b.Length, Name: b.Name}
	if rdma {
		j.LKey, j.RKey = widen(b.LKeys), widen(b.RKeys)
	}
	return j
}

func (j *bufferJSON) buffer(protocol string) (Buffer, error) {
	b := Buffer{Name: j.Name, Addr: j.Addr, Length: j.Length, Protocol: j.Protocol}
	if !narrowKeys(protocol) {
		return b, nil
	}
	var err error
	if b.RKeys, err = narrow(j.RKey); err != nil {
		return Buffer{}, fmt.Errorf("rkey: %w", err)
	}
	if b.LKeys, err = narrow(j.LKey); err != nil {
		return Buffer{}, fmt.Errorf("lkey: %w", err)
	}
	return b, nil
}

func widen(keys []uint32) *[]uint64 {
	out := make([]uint64, 0, len(keys))
	for _, k := range keys {
		out = append(out, uint64(k))
	}
	return &out
}

func narrow(keys *[]uint64) ([]uint32, error) {
	if keys == nil || len(*keys) == 0 {
		return nil, nil
	}
	out := make([]uint32, 0, len(*keys))
	for _, k := range *keys {
		if k > math.MaxUint32 {
			return nil, fmt.Errorf("%d has more than 32 bits", k)
		}
		out = append(out, uint32(k))
	}
	return out, nil
}

// quote shortens and quotes a name for an error.
func quote(s string) string {
	if len(s) > 80 {
		s = s[:80] + "..."
	}
	q, err := marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		return "?"
	}
	return string(q)
}

func validText(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) })
}

// marshal is json.Marshal without the escapes for HTML, which would change bytes that
// peers compare.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, errs.Wrap(errs.Internal, "metadata: encode", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
