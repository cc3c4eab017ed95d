"""The enterprise service desk of the fictional Halden Freight: django-helpdesk with its own rules and vocabulary."""
