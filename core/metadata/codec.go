package metadata

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// MaxDescriptorSize bounds the JSON form of a descriptor, in bytes.
const MaxDescriptorSize = 16 << 20

// Timestamp is t as Descriptor.Timestamp has it: local time with microseconds.
func Timestamp(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05.000000") }

// EncodeDescriptor returns the JSON form: compact, keys sorted, whole 64-bit numbers.
// Devices, keys and matrix appear with protocols of the RDMA family only. InvalidParams for
// a descriptor that upstream's nodes would refuse or misread.
func EncodeDescriptor(d *Descriptor) ([]byte, error) {
	matrix, err := validateOwn(d)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "metadata: encode descriptor of "+quote(d.Name), err)
	}
	protocol, err := marshal(d.Protocol)
	if err != nil {
		return nil, err
	}
	side, err := encodeSide(d.Life, d.Transports)
	if err != nil {
		return nil, errs.Wrap(errs.InvalidParams, "metadata: encode descriptor of "+quote(d.Name), err)
	}
	j := descriptorJSON{
		Buffers: make([]bufferJSON, 0, len(d.Buffers)), Name: d.Name, Protocol: protocol, RDMAServerName: d.RDMAServerName,
		TCPDataHost: d.TCPDataHost, TCPDataPort: &d.TCPDataPort, TCPProtoVersion: &d.TCPProtoVersion, Timestamp: d.Timestamp, Side: side,
	}
	rdma := rdmaFamily(d.Protocol)
	for _, b := range d.Buffers {
		j.Buffers = append(j.Buffers, encodeBuffer(b, rdma))
	}
	if rdma {
		devices := make([]deviceJSON, 0, len(d.Devices))
		for _, v := range d.Devices {
			devices = append(devices, deviceJSON{GID: v.GID, LID: v.LID, Name: v.Name})
		}
		j.Devices, j.PriorityMatrix = &devices, matrix
		if matrix == nil {
			j.PriorityMatrix = json.RawMessage("null")
		}
	}
	return marshal(j)
}

// DecodeDescriptor parses the JSON form. It ignores unknown keys, and buffers without an
// address of protocols other than tcp and the RDMA family, which name memory in other
// ways. Keys of buffers are those of rdma and barex; efa and cxi have wider ones, which are
// left out. DeserializeFail for anything that upstream's nodes would drop, and for a
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
	if j.Name == "" {
		j.Name = j.ServerName
	}
	d, err := j.descriptor()
	if err != nil {
		return nil, errs.Wrap(errs.DeserializeFail, op+" of "+quote(j.Name), err)
	}
	return d, nil
}

func (j *descriptorJSON) descriptor() (*Descriptor, error) {
	d := &Descriptor{Name: j.Name, Timestamp: j.Timestamp, RDMAServerName: j.RDMAServerName, TCPDataHost: j.TCPDataHost, TCPProtoVersion: 1}
	var err error
	if d.Protocol, d.Protocols, err = decodeProtocol(j.Protocol); err != nil {
		return nil, err
	}
	if j.TCPDataPort != nil {
		d.TCPDataPort = *j.TCPDataPort
	}
	if j.TCPProtoVersion != nil {
		d.TCPProtoVersion = *j.TCPProtoVersion
	}
	if slices.ContainsFunc(d.protocols(), rdmaFamily) {
		if j.Devices != nil {
			for _, v := range *j.Devices {
				d.Devices = append(d.Devices, Device{Name: v.Name, LID: v.LID, GID: v.GID})
			}
		}
		if d.Matrix, _, err = parseMatrix(j.PriorityMatrix); err != nil {
			return nil, err
		}
	}
	for i, bj := range j.Buffers {
		protocol := d.Protocol
		if d.Protocols == nil {
			bj.Protocol = ""
		} else if bj.Protocol != "" {
			protocol = bj.Protocol
		}
		if !strictBuffers(protocol) && (bj.Addr == 0 || bj.Length == 0) {
			continue
		}
		b, err := bj.buffer(protocol)
		if err == nil {
			err = checkKeys(bj.RKey, bj.LKey, len(d.Devices), protocol)
		}
		if err != nil {
			return nil, errs.New(errs.InvalidParams, "descriptor", "buffer %d: %w", i, err)
		}
		d.Buffers = append(d.Buffers, b)
	}
	if d.Life, d.Transports, err = decodeSide(j.Side); err != nil {
		return nil, err
	}
	return d, validate(d)
}
