package agent

import (
	"net/netip"
	"strings"

	"github.com/gorun/gorun/internal/wire"
)

// interfaceOf is the name of the interface that has addr, at which ranks of other hosts reach those of this
// one; where all ranks are here it is loopback's. It is empty where there is none.
func interfaceOf(own []wire.Address, addr string, alone bool) string {
	want, _ := netip.ParseAddr(addr)
	want = want.WithZone("")
	for _, a := range own {
		has := a.Prefix.Addr().WithZone("")
		if alone && a.Loopback && has.Is4() || !alone && has.IsValid() && has == want {
			return a.Interface
		}
	}
	return ""
}

// unset are those of NAME=value strings that nobody has set for p's ranks.
func (p program) unset(env []string) (rest []string) {
	var inside map[string]bool
	if p.singularity {
		inside = taken(p.env)
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, set := p.env[name]; !set && !inside[name] {
			rest = append(rest, kv)
		}
	}
	return rest
}

// spareLoopback has programs that use a proxy reach the agent without it.
func spareLoopback(env map[string]string) {
	const lower, upper, local = "no_proxy", "NO_PROXY", "127.0.0.1,localhost"
	if !usesProxy(env) {
		return
	}
	_, hasLower := env[lower]
	_, hasUpper := env[upper]
	for name, has := range map[string]bool{lower: hasLower, upper: hasUpper} {
		switch value := env[name]; {
		case !has && (hasLower || hasUpper), strings.TrimSpace(value) == "*": // the other name counts alone; nothing goes through a proxy
		case value == "":
			env[name] = local
		default:
			env[name] = value + "," + local
		}
	}
}

func usesProxy(env map[string]string) bool {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		if env[name] != "" {
			return true
		}
	}
	return false
}
