package apiserver

import (
	"fmt"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/generic"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/util"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// groups are the API groups that upstream has installed in a server.
type groups struct {
	all []genericapiserver.APIGroupInfo
}

// note returns a provider that adds its group to g.
func (g *groups) note(p controlplaneapiserver.RESTStorageProvider) controlplaneapiserver.RESTStorageProvider {
	noting := notingProvider{p, g}
	if hook, ok := p.(genericapiserver.PostStartHookProvider); ok {
		return struct {
			notingProvider
			genericapiserver.PostStartHookProvider
		}{noting, hook}
	}
	return noting
}

// notingProvider is a provider that adds its group to groups.
type notingProvider struct {
	controlplaneapiserver.RESTStorageProvider
	groups *groups
}

// NewRESTStorage implements controlplaneapiserver.RESTStorageProvider.
func (p notingProvider) NewRESTStorage(enabled serverstorage.APIResourceConfigSource, options generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info, err := p.RESTStorageProvider.NewRESTStorage(enabled, options)
	if err == nil {
		p.groups.all = append(p.groups.all, info)
	}
	return info, err
}

// reinstall replaces the handlers of all versions of the groups by the same handlers with our typeConverter. The storages,
// discovery, and the checks of upstream stay. It also replaces the selection of routes (router).
func (g *groups) reinstall(server *genericapiserver.GenericAPIServer, config *genericapiserver.Config) error {
	// As in upstream, those of the core group know only its kinds, and the others do not know them: an Event that two
	// writers have written in v1 and in events.k8s.io/v1 keeps the fields of one of them.
	core, err := g.typeConverter(config, true)
	if err != nil {
		return err
	}
	others, err := g.typeConverter(config, false)
	if err != nil {
		return err
	}
	container := server.Handler.GoRestfulContainer
	container.Router(newRouter())
	installed := container.RegisteredWebServices()
	for i := range g.all {
		info := &g.all[i]
		for _, version := range servedVersions(info) {
			handlers := newHandlers(info, version, server, config)
			if handlers.TypeConverter = others; version.Group == "" {
				handlers.TypeConverter = core
			}
			for _, s := range installed {
				if s.RootPath() == path.Join(handlers.Root, version.Group, version.Version) {
					if err := container.Remove(s); err != nil {
						return err
					}
				}
			}
			if _, _, err := handlers.InstallREST(container); err != nil {
				return fmt.Errorf("install %s: %w", version, err)
			}
		}
	}
	return nil
}

// servedVersions returns the versions of a group that have resources.
func servedVersions(info *genericapiserver.APIGroupInfo) (served []schema.GroupVersion) {
	for _, v := range info.PrioritizedVersions {
		if len(info.VersionedResourcesStorageMap[v.Version]) > 0 {
			served = append(served, v)
		}
	}
	return served
}

// typeConverter returns the converter for all kinds of the core group, or of the other groups.
func (g *groups) typeConverter(config *genericapiserver.Config, core bool) (managedfields.TypeConverter, error) {
	var names []string
	for i := range g.all {
		info := &g.all[i]
		for _, version := range servedVersions(info) {
			if (version.Group == "") != core {
				continue
			}
			for _, storage := range info.VersionedResourcesStorageMap[version.Version] {
				kind, err := genericapi.GetResourceKind(version, storage, info.Scheme)
				if err != nil {
					return nil, err
				}
				object, err := info.Scheme.New(kind)
				if err != nil {
					return nil, err
				}
				names = append(names, util.GetCanonicalTypeName(object))
			}
		}
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(config.OpenAPIV3Config, names...)
	if err != nil {
		return nil, err
	}
	types, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return nil, err
	}
	return newTypeConverter(types), nil
}

// newHandlers returns the handlers of a version, as genericapiserver.GenericAPIServer installs them.
func newHandlers(info *genericapiserver.APIGroupInfo, version schema.GroupVersion, server *genericapiserver.GenericAPIServer, config *genericapiserver.Config) *genericapi.APIGroupVersion {
	root, served := genericapiserver.APIGroupPrefix, map[string][]string{}
	if version.Group == "" {
		root = genericapiserver.DefaultLegacyAPIPrefix
	}
	for v, resources := range info.VersionedResourcesStorageMap {
		for r := range resources {
			served[r] = append(served[r], schema.GroupVersion{Group: version.Group, Version: v}.String())
		}
	}
	return &genericapi.APIGroupVersion{
		Root: root, GroupVersion: version, Storage: info.VersionedResourcesStorageMap[version.Version], AllServedVersionsByResource: served,
		MetaGroupVersion: info.MetaGroupVersion, OptionsExternalVersion: info.OptionsExternalVersion,
		ParameterCodec: info.ParameterCodec, Serializer: info.NegotiatedSerializer,
		Creater: info.Scheme, Convertor: info.Scheme, ConvertabilityChecker: info.Scheme, Defaulter: info.Scheme, Typer: info.Scheme,
		UnsafeConvertor: runtime.UnsafeObjectConvertor(info.Scheme), Namer: runtime.Namer(meta.NewAccessor()),
		EquivalentResourceRegistry: server.EquivalentResourceRegistry,
		Authorizer:                 server.Authorizer, Admit: config.AdmissionControl,
		MinRequestTimeout: time.Duration(config.MinRequestTimeout) * time.Second, MaxRequestBodyBytes: config.MaxRequestBodyBytes,
	}
}
