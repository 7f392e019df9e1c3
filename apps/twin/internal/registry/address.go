package registry

import (
	"errors"
	"fmt"
	"net"
)

// LocalAddress is the address that peers can reach this host by: the first IPv4 that is no loopback address, and
// that lies in network (CIDR) if one is given.
func LocalAddress(network string) (string, error) {
	var allowed *net.IPNet
	if network != "" {
		_, parsed, err := net.ParseCIDR(network)
		if err != nil {
			return "", fmt.Errorf("network to register from: %w", err)
		}
		allowed = parsed
	}
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return "", fmt.Errorf("list addresses: %w", err)
	}
	for _, address := range addresses {
		ip, ok := address.(*net.IPNet)
		if !ok || ip.IP.IsLoopback() || ip.IP.To4() == nil {
			continue
		}
		if allowed == nil || allowed.Contains(ip.IP) {
			return ip.IP.String(), nil
		}
	}
	return "", errors.New("no address to register")
}
