package transportwire

import (
	"bytes"
	"os"

	"github.com/mooncake-go/mooncake/sdk/errs"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	transportv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/transport/v1"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/transportwire/internal/datapath"
	"github.com/mooncake-go/mooncake/sdk/wire"
)

func encodeEndpoint(e transport.Endpoint) *transportv1.Endpoint {
	return &transportv1.Endpoint{Blob: e.Blob, Incarnation: e.Incarnation}
}

// decodeEndpoint refuses endpoints that no transport may have.
func decodeEndpoint(m *transportv1.Endpoint) (transport.Endpoint, error) {
	if n := len(m.GetBlob()); n == 0 || n > maxBlob {
		return transport.Endpoint{}, errs.New(errs.InvalidParams, "", "an endpoint of %d bytes, want 1 to %d", n, maxBlob)
	}
	return transport.Endpoint{Blob: bytes.Clone(m.GetBlob()), Incarnation: m.GetIncarnation()}, nil
}

func encodeRails(rails []transport.Rail) []*transportv1.Rail {
	ms := make([]*transportv1.Rail, len(rails))
	for i, r := range rails {
		ms[i] = &transportv1.Rail{Id: uint32(r.ID), Local: r.Local, Remote: r.Remote, Up: r.Up, Speed: r.Speed}
	}
	return ms
}

// decodeRails refuses rails with invalid or duplicate IDs.
func decodeRails(ms []*transportv1.Rail) ([]transport.Rail, error) {
	if len(ms) > maxRails {
		return nil, errs.New(errs.InvalidParams, "", "%d rails, at most %d are allowed", len(ms), maxRails)
	}
	rails := make([]transport.Rail, len(ms))
	seen := make(map[transport.RailID]bool, len(ms))
	for i, m := range ms {
		id := transport.RailID(m.GetId())
		if m.GetId() == 0 || m.GetId() != uint32(id) || seen[id] {
			return nil, errs.New(errs.InvalidParams, "", "a rail with the ID %d, or two of them", m.GetId())
		}
		seen[id] = true
		rails[i] = transport.Rail{
			ID: id, Local: wire.Clip(m.GetLocal(), wire.MaxItemText), Remote: wire.Clip(m.GetRemote(), wire.MaxItemText), Up: m.GetUp(), Speed: m.GetSpeed(),
		}
	}
	return rails, nil
}

func encodeSegment(s transport.Segment) *transportv1.Segment {
	m := &transportv1.Segment{
		Protocol: s.Protocol, DataHost: s.DataHost, DataPort: int32(s.DataPort), DataVersion: int32(s.DataVersion),
		ServerName: s.ServerName, Matrix: s.Matrix,
	}
	for _, d := range s.Devices {
		m.Devices = append(m.Devices, &transportv1.Device{Name: d.Name, Lid: d.LID, Gid: d.GID})
	}
	for _, b := range s.Buffers {
		m.Buffers = append(m.Buffers, &transportv1.Buffer{Name: b.Name, Addr: b.Addr, Length: b.Length, Rkeys: b.RKeys, Lkeys: b.LKeys})
	}
	return m
}

func decodeSegment(m *transportv1.Segment) transport.Segment {
	s := transport.Segment{
		Protocol: m.GetProtocol(), DataHost: m.GetDataHost(), DataPort: int(m.GetDataPort()), DataVersion: int(m.GetDataVersion()),
		ServerName: m.GetServerName(), Matrix: m.GetMatrix(),
	}
	for _, d := range m.GetDevices() {
		s.Devices = append(s.Devices, transport.Device{Name: d.GetName(), LID: d.GetLid(), GID: d.GetGid()})
	}
	for _, b := range m.GetBuffers() {
		s.Buffers = append(s.Buffers, transport.Buffer{Name: b.GetName(), Addr: b.GetAddr(), Length: b.GetLength(), RKeys: b.GetRkeys(), LKeys: b.GetLkeys()})
	}
	return s
}

// toFailure and fromFailure carry the error of a completion.
func toFailure(err error) datapath.Failure {
	if err == nil {
		err = errs.New(errs.Internal, "", "the transport failed an operation without an error")
	}
	m := wire.ToProto(err)
	return datapath.Failure{Code: errs.Code(m.GetCode()), Class: errs.Class(m.GetClass()), Text: m.GetMessage()}
}

func fromFailure(f datapath.Failure) error {
	return wire.FromProto(&pluginv1.Error{Code: int32(f.Code), Class: uint32(f.Class), Message: f.Text})
}

func pid() int32 { return int32(os.Getpid()) }
