"""What a stranger on the network gets from a host: python3 port_scan.py ADDRESS.

Connects to each TCP port there is, and says several first words to each that takes connections, over a connection of its own each. Prints JSON:
{port: {words: answer}}; an answer is hexadecimal, and empty if there was none within PATIENCE or until the host closed the connection.
"""

import concurrent.futures
import errno
import json
import socket
import ssl
import sys

# Seconds; who means to answer does so at once.
PATIENCE = 3.0

FIRST_WORDS = {
    "nothing": b"",
    "HTTP/1.1": b"GET /metrics HTTP/1.1\r\nHost: any\r\n\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    "zeros": bytes(4096),
    "text": b"hello\r\n" * 64,
}


def open_ports(address):
    ports = []
    for port in range(1, 65536):
        with socket.socket() as probe:
            probe.settimeout(5)
            error = probe.connect_ex((address, port))
            if error == 0:
                ports.append(port)
            elif error != errno.ECONNREFUSED:
                raise OSError(error, f"port {port} neither takes nor refuses a connection")
    return ports


def answer(address, port, words):
    with socket.create_connection((address, port), timeout=PATIENCE) as connection:
        connection.settimeout(PATIENCE)
        received = b""
        try:
            connection.sendall(words)
            while chunk := connection.recv(4096):
                received += chunk
        except (ConnectionError, socket.timeout):
            pass
        return received.hex()


def answer_to_tls(address, port):
    """What a client of TLS without a certificate gets: the alert's name, or application data."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        with socket.create_connection((address, port), timeout=PATIENCE) as connection:
            with context.wrap_socket(connection, server_hostname="any") as client:
                client.sendall(FIRST_WORDS["HTTP/2"])
                return client.recv(4096).hex()
    except ssl.SSLError as error:
        return f"alert: {error.reason}"
    except (ConnectionError, socket.timeout):
        return ""


def main():
    address = sys.argv[1]
    with concurrent.futures.ThreadPoolExecutor(max_workers=64) as pool:
        said = {port: {**{name: pool.submit(answer, address, port, words) for name, words in FIRST_WORDS.items()},
                       "TLS": pool.submit(answer_to_tls, address, port)} for port in open_ports(address)}
        print(json.dumps({port: {name: future.result() for name, future in answers.items()} for port, answers in said.items()}))


if __name__ == "__main__":
    main()
