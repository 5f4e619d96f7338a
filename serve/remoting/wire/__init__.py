"""The bytes of the remoting protocol.

frame -> json_header, binary_header -> command
connection -> frame
fastjson, message_bytes, codes: each by itself
"""
