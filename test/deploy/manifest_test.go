package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// container is the description of one container.
type container struct {
	Name, Image    string
	Command, Args  []string
	Env            []variable
	EnvFrom        []source `yaml:"envFrom"`
	Ports          []port
	StartupProbe   *probe `yaml:"startupProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	Resources      struct{ Limits map[string]string }
	VolumeMounts   []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type source struct {
	ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
}

type variable struct {
	Name, Value string
	ValueFrom   *struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
	Port          int
	TargetPort    string `yaml:"targetPort"`
}

// probe describes how a container is asked. A port is a number or a name.
type probe struct {
	TCPSocket *struct{ Port string }       `yaml:"tcpSocket"`
	HTTPGet   *struct{ Path, Port string } `yaml:"httpGet"`
	Exec      *struct{ Command []string }
}

type pod struct {
	Metadata struct{ Labels map[string]string }
	Spec     struct {
		EnableServiceLinks *bool `yaml:"enableServiceLinks"`
		Affinity           struct {
			PodAntiAffinity struct {
				Required []struct {
					LabelSelector selector `yaml:"labelSelector"`
				} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
			} `yaml:"podAntiAffinity"`
		}
		InitContainers []container `yaml:"initContainers"`
		Containers     []container
		Volumes        []volume
	}
}

type volume struct {
	Name   string
	Secret *struct {
		SecretName string `yaml:"secretName"`
		Optional   bool
	}
	Projected *struct{ Sources []projection }
}

// projection is one source of a projected volume.
type projection struct {
	ServiceAccountToken *struct{ Path, Audience string } `yaml:"serviceAccountToken"`
	ConfigMap           *struct {
		Name  string
		Items []struct{ Key, Path string }
	} `yaml:"configMap"`
}

type selector map[string]any

// manifest has the fields that the tests read of an object of Kubernetes.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas    int
		ServiceName string `yaml:"serviceName"`
		Selector    selector
		Ports       []port
		Template    pod
		SecretName  string   `yaml:"secretName"` // of a Certificate, as what follows
		URIs        []string `yaml:"uris"`
		DNSNames    []string `yaml:"dnsNames"`
		IsCA        bool     `yaml:"isCA"`
		Usages      []string
		Roles       []struct {
			Name         string
			Replicas     int
			Dependencies []string
			Template     pod
		}
	}
}

// objects reads the objects in some files.
func objects(t *testing.T, names ...string) []manifest {
	t.Helper()
	var all []manifest
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(files, name))
		require.NoError(t, err)
		for dec := yaml.NewDecoder(bytes.NewReader(b)); ; {
			var m manifest
			err := dec.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err, name)
			all = append(all, m)
		}
	}
	return all
}

// kustomization reads the objects of a folder with a kustomization.yaml.
func kustomization(t *testing.T, folder string) []manifest {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(files, folder, "kustomization.yaml"))
	require.NoError(t, err)
	var file struct {
		Resources []string
		Patches   []struct{ Path string }
	}
	require.NoError(t, yaml.Unmarshal(b, &file))
	var all []manifest
	for _, r := range file.Resources {
		if r = filepath.Join(folder, r); filepath.Ext(r) == ".yaml" {
			all = append(all, objects(t, r)...)
		} else {
			all = append(all, kustomization(t, r)...)
		}
	}
	for _, p := range file.Patches {
		for _, m := range objects(t, filepath.Join(folder, p.Path)) {
			at := slices.IndexFunc(all, func(o manifest) bool { return o.Kind == m.Kind && o.Metadata.Name == m.Metadata.Name })
			require.GreaterOrEqual(t, at, 0, "%s is a patch of no object", p.Path)
			all[at].patch(m)
		}
	}
	return all
}

// patch does what a strategic merge does with the fields that patches here have.
func (m *manifest) patch(by manifest) {
	for k, v := range by.Data {
		m.Data[k] = v
	}
	m.Spec.DNSNames = append(m.Spec.DNSNames, by.Spec.DNSNames...)
	own, more := &m.Spec.Template.Spec, by.Spec.Template.Spec
	own.Volumes = append(own.Volumes, more.Volumes...)
	for _, c := range more.Containers {
		for i := range own.Containers {
			if own.Containers[i].Name == c.Name {
				own.Containers[i].VolumeMounts = append(own.Containers[i].VolumeMounts, c.VolumeMounts...)
			}
		}
	}
}

// deployment is what some objects start.
type deployment struct {
	containers map[string]container
	maps       map[string]map[string]string // the ConfigMaps
	services   []string
	secrets    map[string]string // of the volumes of each container, by the path of the mount
	tokens     map[string]string // the audiences of the tokens of service accounts in each container, by their paths
}

// deployed sorts objects, after a check that those that name others name some that are there.
func deployed(t *testing.T, all []manifest) deployment {
	t.Helper()
	d := deployment{containers: map[string]container{}, maps: map[string]map[string]string{}, secrets: map[string]string{}, tokens: map[string]string{}}
	var pods []pod
	for _, m := range all {
		switch m.Kind {
		case "ConfigMap":
			d.maps[m.Metadata.Name] = m.Data
		case "Service":
			d.services = append(d.services, m.Metadata.Name)
		case "Deployment", "StatefulSet", "Job":
			p := m.Spec.Template
			for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
				d.containers[c.Name] = c
				for _, m := range c.VolumeMounts {
					at := slices.IndexFunc(p.Spec.Volumes, func(v volume) bool { return v.Name == m.Name })
					if at >= 0 && p.Spec.Volumes[at].Secret != nil {
						d.secrets[c.Name+":"+m.MountPath] = p.Spec.Volumes[at].Secret.SecretName
					}
					if at >= 0 && p.Spec.Volumes[at].Projected != nil {
						for _, s := range p.Spec.Volumes[at].Projected.Sources {
							if s.ServiceAccountToken != nil {
								d.tokens[c.Name+":"+filepath.Join(m.MountPath, s.ServiceAccountToken.Path)] = s.ServiceAccountToken.Audience
							}
						}
					}
				}
			}
			require.NotNil(t, p.Spec.EnableServiceLinks, m.Metadata.Name)
			assert.False(t, *p.Spec.EnableServiceLinks)
			for _, other := range p.Spec.Affinity.PodAntiAffinity.Required {
				assert.True(t, p.has(other.LabelSelector), "%s stays away from pods of other objects", m.Metadata.Name)
			}
			pods = append(pods, p)
		}
	}
	for _, m := range all {
		if s := m.Spec.Selector; s != nil {
			assert.True(t, slices.ContainsFunc(pods, func(p pod) bool { return p.has(s) }), "the %s %s selects no pod", m.Kind, m.Metadata.Name)
		}
		if m.Kind == "StatefulSet" {
			assert.Contains(t, d.services, m.Spec.ServiceName)
		}
		for _, p := range m.Spec.Ports {
			assert.True(t, hasPort(d.containers, p), "%s: port %s leads to no container", m.Metadata.Name, p.Name)
		}
	}
	return d
}

// has reports whether a selector, with or without matchLabels, selects the pod.
func (p pod) has(s selector) bool {
	if inner, ok := s["matchLabels"].(selector); ok {
		s = inner
	}
	for k, v := range s {
		if p.Metadata.Labels[k] != v {
			return false
		}
	}
	return len(s) > 0
}

func hasPort(containers map[string]container, p port) bool {
	for _, c := range containers {
		for _, own := range c.Ports {
			if own.Name == p.TargetPort && own.ContainerPort == p.Port {
				return true
			}
		}
	}
	return false
}

// service is a container of a compose file.
type service struct {
	Command     []string
	Ports       []string
	Environment map[string]string
	Image       string
	MemLimit    string `yaml:"mem_limit"`
}

func compose(t *testing.T, name string) map[string]service {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(files, name))
	require.NoError(t, err)
	var file struct{ Services map[string]service }
	require.NoError(t, yaml.Unmarshal(b, &file))
	return file.Services
}

// imageNames are the names that the image gives to its program.
func imageNames() ([]string, error) {
	b, err := os.ReadFile(filepath.Join(files, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(b), "for name in ")
	list, _, ended := strings.Cut(rest, ";")
	if !found || !ended {
		return nil, errors.New("deploy/Dockerfile has no line 'for name in ...;' any more")
	}
	return strings.Fields(strings.ReplaceAll(list, "\\", "")), nil
}
