package metadata

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxDescriptorSize bounds the JSON form of a descriptor, in bytes.
const MaxDescriptorSize = 16 << 20

// descriptorJSON is a descriptor as it is stored. The fields are in the order of their
// keys, which is how upstream writes objects.
type descriptorJSON struct {
	Buffers         []bufferJSON    `json:"buffers"`
	Name            string          `json:"name"`
	Protocol        json.RawMessage `json:"protocol"`
	TCPDataPort     *int            `json:"tcp_data_port"`
	TCPProtoVersion *int            `json:"tcp_proto_version"`
	Timestamp       string          `json:"timestamp"`
	Side            json.RawMessage `json:"x_mooncake_go,omitempty"`
}

type bufferJSON struct {
	Addr   uint64 `json:"addr"`
	Length uint64 `json:"length"`
	Name   string `json:"name"`
}

// EncodeDescriptor returns the JSON form: compact, keys sorted, whole 64-bit numbers.
// InvalidParams for a descriptor that peers would refuse.
func EncodeDescriptor(d *Descriptor) ([]byte, error) {
	if err := validate(d); err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "metadata: encode descriptor of "+quote(d.Name), err)
	}
	protocol, err := marshal(d.Protocol)
	if err != nil {
		return nil, err
	}
	side, err := encodeSide(d.Transports)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "metadata: encode descriptor of "+quote(d.Name), err)
	}
	j := descriptorJSON{
		Buffers: make([]bufferJSON, 0, len(d.Buffers)), Name: d.Name, Protocol: protocol,
		TCPDataPort: &d.TCPDataPort, TCPProtoVersion: &d.TCPProtoVersion, Timestamp: d.Timestamp, Side: side,
	}
	for _, b := range d.Buffers {
		j.Buffers = append(j.Buffers, bufferJSON{Addr: b.Addr, Length: b.Length, Name: b.Name})
	}
	return marshal(j)
}

// DecodeDescriptor parses the JSON form. It ignores unknown keys, and buffers without an
// address of protocols other than tcp and the RDMA family, which name memory in other
// ways. DeserializeFail for anything that upstream's nodes would drop, and for a
// malformed side key of ours.
func DecodeDescriptor(b []byte) (*Descriptor, error) {
	const op = "metadata: decode descriptor"
	if len(b) > MaxDescriptorSize {
		return nil, errs.New(errs.DeserializeFail, op, "it has %d bytes, more than %d", len(b), MaxDescriptorSize)
	}
	var j descriptorJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return nil, errs.Wrap(errs.DeserializeFail, op, err)
	}
	d := &Descriptor{Name: j.Name, Timestamp: j.Timestamp, TCPProtoVersion: 1}
	if err := json.Unmarshal(j.Protocol, &d.Protocol); err != nil {
		return nil, errs.New(errs.DeserializeFail, op+" of "+quote(j.Name), "protocol must be one name; several at once are not supported")
	}
	if j.TCPDataPort != nil {
		d.TCPDataPort = *j.TCPDataPort
	}
	if j.TCPProtoVersion != nil {
		d.TCPProtoVersion = *j.TCPProtoVersion
	}
	for _, b := range j.Buffers {
		if !strictBuffers(d.Protocol) && (b.Addr == 0 || b.Length == 0) {
			continue
		}
		d.Buffers = append(d.Buffers, Buffer{Name: b.Name, Addr: b.Addr, Length: b.Length})
	}
	var err error
	if d.Transports, err = decodeSide(j.Side); err == nil {
		err = validate(d)
	}
	if err != nil {
		return nil, errs.Wrap(errs.DeserializeFail, op+" of "+quote(j.Name), err)
	}
	return d, nil
}

// strictBuffers reports whether one bad buffer spoils the whole descriptor.
func strictBuffers(protocol string) bool {
	switch protocol {
	case "tcp", "rdma", "barex", "efa", "cxi":
		return true
	}
	return false
}

func validate(d *Descriptor) error {
	const op = "descriptor"
	bad := func(format string, args ...any) error { return errs.New(errs.InvalidParams, op, format, args...) }
	switch {
	case d.Protocol == "":
		return bad("it has no protocol")
	case d.TCPDataPort < 0 || d.TCPDataPort > 65535:
		return bad("tcp_data_port %d is not a port", d.TCPDataPort)
	case !utf8.ValidString(d.Name) || len(d.Name) > MaxNameSize:
		return bad("the name %s is not UTF-8 of at most %d bytes", quote(d.Name), MaxNameSize)
	}
	for i, b := range d.Buffers {
		switch {
		case b.Addr == 0 || b.Length == 0 || (b.Name == "" && strictBuffers(d.Protocol)):
			return bad("buffer %d (name %s, address %#x, %d bytes) has an empty field", i, quote(b.Name), b.Addr, b.Length)
		case !utf8.ValidString(b.Name):
			return bad("buffer %d: the name %s is not UTF-8", i, quote(b.Name))
		case b.Addr+b.Length < b.Addr:
			return bad("buffer %d: %d bytes at %#x go beyond the address space", i, b.Length, b.Addr)
		}
	}
	return nil
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
